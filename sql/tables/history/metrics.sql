-- grain: one number after one refresh that made it, changed it, made it again or found it gone
-- reads: inputs.metric_history, the rows that each refresh of the warehouse has added
-- units: as main.metrics; event: new, changed, confirmed (same, from other inputs), ended (no value);
--   p_holm is p_value after Holm's correction over the refresh
-- key: refresh, task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
select
    refresh,
    recorded_at,
    event,
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    seed,
    value,
    ci_low,
    ci_high,
    n,
    settings,
    problem,
    fingerprint,
    code,
    data,
    weights,
    vectors,
    difference_low,
    difference_high,
    p_value,
    p_holm,
    test,
    began_at,
    run_id,
    config,
    disent_version,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings,
        method, trained_on, embedding
    )), 16) as number_id,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings
    )), 16) as problem_id
from inputs.metric_history

-- grain: one number after one refresh that made it, changed it, made it again or found it gone
-- reads: inputs.metric_history, the rows that each refresh of the warehouse has added
-- units: as main.metrics; event: new, changed, confirmed (same, from other inputs), ended (no value)
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
    began_at,
    run_id,
    config,
    disent_version
from inputs.metric_history

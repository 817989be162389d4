-- grain: one pair of methods on one problem
-- reads: inputs.comparisons, a file per task, data set and encoder
-- units: difference is value_a minus value_b, with a 95 % interval; p_holm is p_value after Holm's correction
-- key: number_id_a, number_id_b
select
    task,
    dataset,
    encoder,
    evaluated_on,
    metric,
    settings,
    method_a,
    trained_on_a,
    embedding_a,
    method_b,
    trained_on_b,
    embedding_b,
    value_a,
    value_b,
    difference,
    ci_low,
    ci_high,
    n,
    test,
    p_value,
    p_holm,
    fingerprint,
    created_at,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings
    )), 16) as problem_id,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings,
        method_a, trained_on_a, embedding_a
    )), 16) as number_id_a,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings,
        method_b, trained_on_b, embedding_b
    )), 16) as number_id_b
from inputs.comparisons

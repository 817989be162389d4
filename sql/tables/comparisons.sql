-- grain: one pair of methods on one problem
-- reads: inputs.comparisons, a file per task, data set and encoder
-- units: difference is value_a minus value_b, with a 95 % interval; p_holm is p_value after Holm's correction
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
    created_at
from inputs.comparisons

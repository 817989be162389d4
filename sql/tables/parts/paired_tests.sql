-- grain: one paired test, seen from one of its two methods
-- reads: main.comparisons
-- units: ci_low and ci_high are of the value of method minus that of other
-- key: number_id, other_number_id
select
    task,
    dataset,
    encoder,
    evaluated_on,
    metric,
    settings,
    method_a as method,
    trained_on_a as trained_on,
    embedding_a as embedding,
    method_b as other,
    trained_on_b as other_trained_on,
    embedding_b as other_embedding,
    ci_low,
    ci_high,
    p_holm,
    problem_id,
    number_id_a as number_id,
    number_id_b as other_number_id
from main.comparisons
union all
select
    task,
    dataset,
    encoder,
    evaluated_on,
    metric,
    settings,
    method_b as method,
    trained_on_b as trained_on,
    embedding_b as embedding,
    method_a as other,
    trained_on_a as other_trained_on,
    embedding_a as other_embedding,
    -ci_high as ci_low,
    -ci_low as ci_high,
    p_holm,
    problem_id,
    number_id_b as number_id,
    number_id_a as other_number_id
from main.comparisons

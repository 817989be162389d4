-- grain: one problem (task, data set, encoder, direction) with its best method and the runner-up
-- reads: main.headline, parts.paired_tests
-- units: as main.headline; difference is value - runner_up_value; stands: p_holm < 0.05, null if not tested
-- key: problem_id
-- is_stale holds of the value or of that of the runner-up
with

counted as (

    select
        *,
        count(*) over (partition by problem_id) as methods
    from main.headline

),

judged as (

    select
        winner.task,
        winner.dataset,
        winner.encoder,
        winner.evaluated_on,
        winner.method,
        winner.value,
        winner.ci_low,
        winner.ci_high,
        follower.method as runner_up,
        follower.value as runner_up_value,
        tests.ci_low as difference_low,
        tests.ci_high as difference_high,
        tests.p_holm,
        winner.methods,
        winner.n,
        winner.seeds,
        winner.trained_on,
        winner.embedding,
        follower.trained_on as runner_up_trained_on,
        follower.embedding as runner_up_embedding,
        winner.metric,
        winner.reads_as,
        winner.settings,
        winner.number_id,
        follower.number_id as runner_up_number_id,
        winner.problem_id,
        winner.as_of,
        winner.refresh,
        winner.is_stale or coalesce(follower.is_stale, false) as is_stale,
        winner.value - follower.value as difference,
        tests.p_holm < 0.05 as stands
    from counted as winner
    left join counted as follower
        on winner.problem_id = follower.problem_id and follower.rank = 2
    left join parts.paired_tests as tests
        on winner.number_id = tests.number_id and follower.number_id = tests.other_number_id
    where winner.rank = 1

)

select
    task,
    dataset,
    encoder,
    evaluated_on,
    method,
    value,
    ci_low,
    ci_high,
    runner_up,
    runner_up_value,
    difference,
    difference_low,
    difference_high,
    p_holm,
    stands,
    methods,
    n,
    seeds,
    trained_on,
    embedding,
    runner_up_trained_on,
    runner_up_embedding,
    metric,
    reads_as,
    as_of,
    refresh,
    is_stale,
    settings,
    number_id,
    runner_up_number_id,
    problem_id
from judged
order by task, dataset, encoder, evaluated_on

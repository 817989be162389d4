-- grain: one problem (task, data set, encoder, direction) with its best method and the runner-up
-- reads: main.headline, parts.paired_tests
-- units: as main.headline; difference is value - runner_up_value; stands: p_holm < 0.05, null if not tested
-- is_stale holds of the value or of that of the runner-up
with

counted as (

    select
        *,
        count(*) over (partition by task, dataset, encoder, evaluated_on) as methods
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
        winner.as_of,
        winner.is_stale or coalesce(follower.is_stale, false) as is_stale,
        winner.value - follower.value as difference,
        tests.p_holm < 0.05 as stands
    from counted as winner
    left join counted as follower
        on
            winner.task = follower.task
            and winner.dataset = follower.dataset
            and winner.encoder = follower.encoder
            and winner.evaluated_on = follower.evaluated_on
            and follower.rank = 2
    left join parts.paired_tests as tests
        on
            winner.task = tests.task
            and winner.dataset = tests.dataset
            and winner.encoder = tests.encoder
            and winner.evaluated_on = tests.evaluated_on
            and winner.metric = tests.metric
            and winner.settings = tests.settings
            and winner.method = tests.method
            and winner.trained_on = tests.trained_on
            and follower.method = tests.other
            and follower.trained_on = tests.other_trained_on
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
    is_stale,
    settings
from judged
order by task, dataset, encoder, evaluated_on

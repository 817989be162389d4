-- grain: one problem (task, data set, encoder, direction, metric) with its best method after a refresh
-- reads: main.metrics_at, parts.readings, parts.scored_embeddings
-- units: as main.metrics; since_refresh is the refresh that recorded the number
-- parameters: at_refresh
with

numbers as (

    select * from main.metrics_at(at_refresh)
    where seed is null

),

-- The embedding by which the task ranks the method.
ranked as (

    select
        numbers.*,
        readings.reads_as
    from numbers
    inner join parts.readings as readings using (task, embedding, metric, settings)
    inner join parts.scored_embeddings as scored using (task, embedding)
    where readings.hubness = 'none' and readings.reads_as != 'a choice, not a score'
    qualify
        dense_rank() over (
            partition by
                numbers.task, numbers.dataset, numbers.encoder, numbers.evaluated_on, numbers.metric,
                numbers.problem, numbers.method, numbers.trained_on
            order by scored.preference
        ) = 1

)

select
    task,
    dataset,
    encoder,
    evaluated_on,
    metric,
    method,
    trained_on,
    embedding,
    value,
    ci_low,
    ci_high,
    n,
    reads_as,
    since_refresh,
    problem,
    number_id,
    problem_id
from ranked
qualify
    row_number() over (
        partition by task, dataset, encoder, evaluated_on, metric, problem
        order by
            case when reads_as = 'higher is better' then value else -value end desc,
            method asc, trained_on asc
    ) = 1
order by task, dataset, encoder, evaluated_on, metric, problem

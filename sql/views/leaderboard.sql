-- grain: one number of one method, aggregated over its seeds
-- reads: main.metrics main.encoders main.seed_variance parts.scored_embeddings parts.readings heads.trainings
-- units: as main.metrics; rank 1 is the best, null if the task is not scored on the embedding or metric
-- key: number_id
with

aggregates as (

    select * from main.metrics
    where seed is null

),

entries as (

    select
        aggregates.*,
        readings.reads_as,
        readings.hubness,
        seed_variance.std as seed_std,
        trainings.converged,
        encoders.encoder_saw,
        scored_embeddings.preference,
        coalesce(seed_variance.seeds, 0) as seeds,
        coalesce(scored_embeddings.preference = min(scored_embeddings.preference) over (
            partition by aggregates.problem_id, aggregates.method, aggregates.trained_on
        ), false) as is_scored
    from aggregates
    inner join parts.readings using (task, embedding, metric, settings)
    left join parts.scored_embeddings using (task, embedding)
    left join heads.trainings as trainings using (method, encoder, trained_on)
    left join main.encoders using (encoder)
    left join main.seed_variance on aggregates.number_id = seed_variance.number_id

),

ranked as (

    select
        *,
        case when is_scored and reads_as != 'a choice, not a score' then rank() over (
            partition by problem_id, is_scored
            order by case when reads_as = 'higher is better' then value else -value end desc
        ) end as rank
    from entries

)

select
    task,
    dataset,
    encoder,
    evaluated_on,
    metric,
    rank,
    method,
    trained_on,
    embedding,
    value,
    ci_low,
    ci_high,
    n,
    seeds,
    seed_std,
    converged,
    hubness,
    encoder_saw,
    reads_as,
    as_of,
    refresh,
    is_stale,
    settings,
    number_id,
    problem_id
from ranked
order by
    task asc, dataset asc, encoder asc, evaluated_on asc, metric asc, hubness != 'none' asc, hubness asc,
    rank asc nulls last, reads_as asc,
    case when reads_as = 'higher is better' then value else -value end desc,
    method asc, trained_on asc, embedding asc, settings asc

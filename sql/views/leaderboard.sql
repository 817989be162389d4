-- grain: one number of one method, aggregated over its seeds
-- reads: main.metrics, main.seed_variance, parts.scored_embeddings
-- units: as main.metrics; rank 1 is the best, null if the task is not scored on the embedding or metric
with

aggregates as (

    select * from main.metrics
    where seed is null

),

-- Some tasks measure how well the language is recognised (a probe, clusters by language). A high value is
-- good for a language embedding, but is leakage in a meaning embedding.
asked as (

    select
        *,
        task = 'language_identification'
        or coalesce(try_cast(settings as json) ->> 'labels' = 'language', false) as asks_for_language
    from aggregates

),

directed as (

    select
        * exclude (asks_for_language),
        case
            when metric = 'threshold'
                then 'a choice, not a score'
            when asks_for_language and embedding not in ('language', 'sentence')
                then 'leakage, lower is better'
            when not asks_for_language and embedding = 'language'
                then 'leakage, lower is better'
            when regexp_matches(metric, '(_seconds|_std|_error)$')
                then 'lower is better'
            else 'higher is better'
        end as reads_as
    from asked

),

entries as (

    select
        directed.*,
        seed_variance.std as seed_std,
        scored_embeddings.preference,
        coalesce(seed_variance.seeds, 0) as seeds,
        coalesce(scored_embeddings.preference = min(scored_embeddings.preference) over (
            partition by
                directed.task, directed.dataset, directed.method, directed.encoder,
                directed.trained_on, directed.evaluated_on, directed.metric, directed.settings
        ), false) as is_scored
    from directed
    left join main.seed_variance
        using (task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, settings)
    left join parts.scored_embeddings using (task, embedding)

),

ranked as (

    select
        *,
        case when is_scored and reads_as != 'a choice, not a score' then rank() over (
            partition by task, dataset, encoder, evaluated_on, metric, settings, is_scored
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
    reads_as,
    settings
from ranked
order by
    task, dataset, encoder, evaluated_on, metric, rank nulls last, reads_as,
    case when reads_as = 'higher is better' then value else -value end desc

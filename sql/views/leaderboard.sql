-- grain: one number of one method, aggregated over its seeds
-- reads: main.metrics, main.seed_variance, parts.scored_embeddings, heads.trainings
-- units: as main.metrics; rank 1 is the best, null if the task is not scored on the embedding or metric
with

aggregates as (

    select * from main.metrics
    where seed is null

),

-- Some tasks measure how well the language is recognised (a probe, clusters by language). A high value is
-- good for a language embedding, but is leakage in a meaning embedding. Language identification ranks methods
-- without a language embedding by the sentence embedding.
asked as (

    select
        *,
        task = 'language_identification'
        or coalesce(try_cast(settings as json) ->> 'labels' = 'language', false) as asks_for_language,
        embedding = 'language'
        or (task = 'language_identification' and embedding = 'sentence') as is_asked_for
    from aggregates

),

directed as (

    select
        * exclude (asks_for_language, is_asked_for),
        case
            when metric = 'threshold'
                then 'a choice, not a score'
            when asks_for_language and not is_asked_for
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
        trainings.converged,
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
    left join heads.trainings as trainings using (method, encoder, trained_on)

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
    converged,
    reads_as,
    settings
from ranked
order by
    task asc, dataset asc, encoder asc, evaluated_on asc, metric asc, rank asc nulls last, reads_as asc,
    case when reads_as = 'higher is better' then value else -value end desc,
    method asc, trained_on asc, embedding asc, settings asc

-- grain: one embedding with one metric and settings of a task, that was ever measured
-- reads: evaluation.measurements, main.comparisons, history.metrics, parts.scored_embeddings
-- units: reads_as says which values are better, hubness which correction for hubs, none if there is none
-- key: task, embedding, metric, settings
with

measured as (

    select
        task,
        embedding,
        metric,
        settings
    from evaluation.measurements
    union
    select
        task,
        embedding_a as embedding,
        metric,
        settings
    from main.comparisons
    union
    select
        task,
        embedding,
        metric,
        settings
    from history.metrics

),

reversed as (

    select distinct task
    from parts.scored_embeddings
    where lower_is_better

),

-- Some tasks measure how well the language is recognised (a probe, clusters by language). A high value is
-- good for a language embedding, but is leakage in a meaning embedding. Language identification ranks methods
-- without a language embedding by the sentence embedding.
asked as (

    select
        *,
        coalesce(try_cast(settings as json) ->> 'hubness', 'none') as hubness,
        task in ('language_identification', 'language_leakage')
        or coalesce(try_cast(settings as json) ->> 'labels' = 'language', false) as asks_for_language,
        embedding = 'language'
        or (task = 'language_identification' and embedding = 'sentence') as is_asked_for,
        task in (select reversed.task from reversed) as is_reversed
    from measured

)

select
    task,
    embedding,
    metric,
    settings,
    case
        when hubness in ('csls', 'dual_softmax') then hubness || ' (transductive)'
        else hubness
    end as hubness,
    case
        when metric = 'threshold'
            then 'a choice, not a score'
        when asks_for_language and not is_asked_for
            then 'leakage, lower is better'
        when not asks_for_language and embedding = 'language'
            then 'leakage, lower is better'
        when is_reversed or regexp_matches(metric, '(_seconds|_std|_error)$')
            then 'lower is better'
        else 'higher is better'
    end as reads_as,
    case
        when regexp_matches(metric, '^(accuracy|recall|precision|map$|mrr|ndcg|share$)|(^|_)f1$')
            then 'fraction'
        when regexp_matches(metric, '^(pearson|spearman)') then 'correlation'
        when regexp_matches(metric, '^silhouette') then 'silhouette'
        when regexp_matches(metric, '_seconds$|^seconds$') then 'seconds'
    end as unit,
    case unit when 'fraction' then 0 when 'correlation' then -1 when 'silhouette' then -1 end as lowest,
    case when unit in ('fraction', 'correlation', 'silhouette') then 1 end as highest
from asked

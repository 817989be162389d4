-- grain: one figure for a task, data set, direction and metric: measured here, printed in a paper, or by mteb
-- reads: evaluation.measurements, main.published_metrics, evaluation.mteb_results, parts.scored_embeddings
-- units: as main.metrics; of mteb only what is defined as here, and the main score of a task
with

lower as (

    select distinct task
    from parts.scored_embeddings
    where lower_is_better

),

figures as (

    select
        'measured' as origin,
        task,
        dataset,
        evaluated_on,
        embedding,
        metric,
        method,
        encoder,
        trained_on,
        value,
        ci_low,
        ci_high,
        seed,
        settings
    from evaluation.measurements
    where
        seed is null
        and coalesce(try_cast(settings as json) ->> 'hubness', 'none') = 'none'
    union all
    select
        paper as origin,
        task,
        dataset,
        evaluated_on,
        embedding,
        metric,
        method,
        encoder,
        trained_on,
        value,
        ci_low,
        ci_high,
        seed,
        settings
    from main.published_metrics
    where value is not null
    union all
    select
        'mteb' as origin,
        task,
        dataset,
        evaluated_on,
        embedding,
        metric,
        method,
        encoder,
        trained_on,
        value,
        null as ci_low,
        null as ci_high,
        seed,
        settings
    from evaluation.mteb_results
    where is_same or mteb_metric = 'main_score'

)

select
    figures.*,
    figures.task in (select lower.task from lower) or ends_with(figures.metric, '_error') as lower_is_better
from figures

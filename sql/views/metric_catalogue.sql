-- grain: one metric of a task by one embedding, and one way to read it
-- reads: parts.readings, parts.scored_embeddings, evaluation.measurements, main.headline
-- units: lowest and highest bound the values, null without a bound; numbers counts rows of main.metrics
-- key: task, embedding, metric, reads_as
with

counted as (

    select
        task,
        embedding,
        metric,
        settings,
        count(*) as numbers
    from evaluation.measurements
    group by all

),

headlines as (

    select distinct
        task,
        embedding,
        metric
    from main.headline

)

select
    readings.task,
    readings.embedding,
    readings.metric,
    readings.reads_as,
    any_value(readings.unit) as unit,
    any_value(readings.lowest) as lowest,
    any_value(readings.highest) as highest,
    case
        when readings.task = 'template_retrieval' then 'main.ceilings'
    end as ceilings_in,
    any_value(scored.preference) as preference,
    any_value(scored.preference) is not null and readings.reads_as != 'a choice, not a score' as is_ranked,
    (readings.task, readings.embedding, readings.metric) in (
        select (headlines.task, headlines.embedding, headlines.metric) from headlines
    ) as is_headline,
    coalesce(sum(counted.numbers), 0)::bigint as numbers
from parts.readings as readings
left join parts.scored_embeddings as scored using (task, embedding)
left join counted using (task, embedding, metric, settings)
group by readings.task, readings.embedding, readings.metric, readings.reads_as
order by readings.task asc, preference asc nulls last, readings.embedding asc, readings.metric asc

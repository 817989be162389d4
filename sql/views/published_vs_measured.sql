-- grain: one published cell beside one measured aggregate of the same name, or beside nothing
-- reads: main.published_metrics, main.metrics
-- units: as main.metrics; difference is measured minus published
with

-- A paper's encoder and data set have names of their own: both stand beside ours, neither is matched.
published as (

    select * from main.published_metrics
    where value is not null

),

-- `en-en` and `en` are both in use for one language on both sides.
measured as (

    select
        * replace (
            if(
                split_part(evaluated_on, '-', 1) = split_part(evaluated_on, '-', 2),
                split_part(evaluated_on, '-', 1),
                evaluated_on
            ) as evaluated_on
        )
    from main.metrics
    where seed is null

)

select
    published.paper,
    published."table",
    published.task,
    published.method,
    published.trained_on,
    published.evaluated_on,
    published.embedding,
    published.metric,
    published.dataset as published_dataset,
    published.encoder as published_encoder,
    published.value as published,
    measured.dataset as measured_dataset,
    measured.encoder as measured_encoder,
    measured.value as measured,
    measured.ci_low,
    measured.ci_high,
    published.settings as published_settings,
    measured.settings as measured_settings,
    published.note,
    round(measured.value - published.value, 6) as difference
from published
left join measured using (task, method, trained_on, evaluated_on, embedding, metric)
order by measured.value is null, published.paper, published."table", published.task, published.method

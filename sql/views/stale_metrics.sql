-- grain: as main.metrics, the rows whose method is not up to date, with the reason
-- reads: main.metrics, main.asset_state
-- units: as main.metrics; state is stale, missing, failed, or waits (what it depends on is not fresh)
with

behind as (

    select
        encoder,
        method,
        partition,
        why,
        recorded_at,
        case when waits then 'waits' else state end as state
    from main.asset_state
    where stage = 'evaluation' and method is not null and (state != 'fresh' or waits)

)

select
    metrics.*,
    behind.state,
    behind.why,
    behind.recorded_at
from main.metrics
inner join behind
    on
        metrics.encoder = behind.encoder
        and metrics.method = behind.method
        and (
            metrics.trained_on = behind.partition
            or (
                metrics.trained_on = ''
                and list_has_all(
                    string_split_regex(behind.partition, '[-+]'), string_split(metrics.evaluated_on, '-')
                )
            )
        )
qualify
    row_number() over (
        partition by
            metrics.task, metrics.dataset, metrics.method, metrics.encoder, metrics.trained_on,
            metrics.evaluated_on, metrics.embedding, metrics.metric, metrics.seed, metrics.settings
        order by behind.partition asc
    ) = 1

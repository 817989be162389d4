-- grain: as main.metrics, the rows whose method is not up to date, with the reason
-- reads: main.metrics, main.asset_state, parts.trained_sets
-- units: as main.metrics; state is stale, missing, failed, or waits (what it depends on is not fresh)
with

behind as (

    select
        states.encoder,
        states.method,
        states.partition,
        states.why,
        states.recorded_at,
        case when states.waits then 'waits' else states.state end as state,
        coalesce(named.languages, string_split_regex(states.partition, '[-+]')) as languages
    from main.asset_state as states
    left join parts.trained_sets as named on states.partition = named.trained_on
    where
        states.stage = 'evaluation'
        and states.method is not null
        and (states.state != 'fresh' or states.waits)

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
                and list_has_all(behind.languages, string_split_regex(metrics.evaluated_on, '[-+]'))
            )
        )
qualify
    row_number() over (
        partition by
            metrics.task, metrics.dataset, metrics.method, metrics.encoder, metrics.trained_on,
            metrics.evaluated_on, metrics.embedding, metrics.metric, metrics.seed, metrics.settings
        order by behind.partition asc
    ) = 1

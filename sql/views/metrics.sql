-- grain: one number, of one seed or (seed null) aggregated over seeds
-- reads: evaluation.measurements, history.metrics, main.asset_state, parts.trained_sets
-- units: accuracies, F1 and MAP are fractions, 0 to 1; correlations -1 to 1; intervals are 95 %
-- key: number_id, seed
with

-- Encoders whose metrics the warehouse, or the comparisons that it reads, have not read as they are; '': all.
unread as (

    select
        unnest(case
            when state = 'failed' then [coalesce(encoder, '')]
            else regexp_extract_all(why, 'evaluation/([^/]+)/[^;]*: its content has changed', 1)
        end) as encoder
    from main.asset_state
    where
        asset = 'warehouse/database'
        or (stage = 'evaluation' and encoder is not null and method is null)

),

behind as (

    select
        states.encoder,
        states.method,
        states.partition,
        concat_ws(': ', case
            when states.waits then 'waits'
            when states.state = 'fresh' then 'the warehouse may be older than this table'
            else states.state
        end, states.why) as why_stale,
        coalesce(named.languages, regexp_extract_all(states.partition, '[a-z]+(-[A-Z]\w*)?')) as languages
    from main.asset_state as states
    left join parts.trained_sets as named on states.partition = named.trained_on
    where
        states.stage = 'evaluation'
        and states.method is not null
        and (
            states.state != 'fresh'
            or states.waits
            or states.encoder in (select unread.encoder from unread)
            or '' in (select unread.encoder from unread)
        )

),

-- Few places have all numbers of a method.
places as (

    select distinct
        encoder,
        method,
        trained_on,
        evaluated_on
    from evaluation.measurements

),

stale_places as (

    select
        places.*,
        arg_min(behind.why_stale, behind.partition) as why_stale
    from places
    inner join behind
        on
            places.encoder = behind.encoder
            and places.method = behind.method
            and (
                places.trained_on = behind.partition
                or (
                    places.trained_on = ''
                    and list_has_all(
                        behind.languages, regexp_extract_all(places.evaluated_on, '[a-z]+(-[A-Z]\w*)?')
                    )
                )
            )
    group by all

),

numbered as (

    select
        *,
        left(md5(concat_ws(
            '|', task, dataset, encoder, evaluated_on, metric, settings, method, trained_on, embedding
        )), 16) as number_id,
        left(md5(concat_ws('|', task, dataset, encoder, evaluated_on, metric, settings)), 16) as problem_id
    from evaluation.measurements

),

-- The refresh after which a number had the value that it has now; later ones have only confirmed it.
recorded (number_id, seed, refresh) as (

    select
        number_id,
        seed,
        max(case when event in ('new', 'changed') then refresh end) over (
            partition by
                task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
            order by refresh
        )
    from history.metrics
    qualify
        event != 'ended'
        and row_number() over (partition by number_id, seed, event = 'ended' order by refresh desc) = 1

)

select
    metrics.task,
    metrics.dataset,
    metrics.method,
    metrics.encoder,
    metrics.trained_on,
    metrics.evaluated_on,
    metrics.embedding,
    metrics.metric,
    metrics.value,
    metrics.ci_low,
    metrics.ci_high,
    metrics.n,
    metrics.seed,
    metrics.settings,
    metrics.fingerprint,
    metrics.created_at as as_of,
    recorded.refresh,
    stale_places.why_stale,
    metrics.number_id,
    metrics.problem_id,
    stale_places.why_stale is not null as is_stale
from numbered as metrics
left join stale_places using (encoder, method, trained_on, evaluated_on)
left join recorded
    on metrics.number_id = recorded.number_id and coalesce(metrics.seed, -1) = coalesce(recorded.seed, -1)

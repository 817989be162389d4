-- grain: one refresh of the warehouse that changed a number, or made it again from other inputs
-- reads: history.events, history.metrics
-- units: counts of numbers by event; standing: changed means, 95 % intervals apart; duration in seconds
-- key: refresh
with

origins as (

    select
        refresh,
        min(began_at) as began_at,
        min(config) as config,
        min(disent_version) as disent_version
    from history.metrics
    group by refresh

)

select
    events.refresh,
    min(events.recorded_at) as recorded_at,
    min(origins.began_at) as began_at,
    date_diff('millisecond', min(origins.began_at), min(events.recorded_at)) / 1000.0 as duration,
    min(origins.config) as config,
    min(origins.disent_version) as disent_version,
    min(events.run_id) as run_id,
    count(*) filter (where events.event = 'new') as new_count,
    count(*) filter (where events.event = 'changed') as changed_count,
    count(*) filter (
        where events.event = 'changed' and events.stands and events.seed is null
    ) as standing_count,
    count(*) filter (
        where events.event = 'changed' and events.stands and events.is_ranked and events.change = 'better'
    ) as better_count,
    count(*) filter (
        where events.event = 'changed' and events.stands and events.is_ranked and events.change = 'worse'
    ) as worse_count,
    count(*) filter (where events.event = 'confirmed') as confirmed_count,
    count(*) filter (where events.event = 'ended') as ended_count
from history.events as events
inner join origins on events.refresh = origins.refresh
group by events.refresh
order by events.refresh

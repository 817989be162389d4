-- grain: one refresh of the warehouse that changed a number, or made it again from other inputs
-- reads: history.events
-- units: counts of numbers by event; standing: changed, and the 95 % intervals do not overlap
select
    refresh,
    min(recorded_at) as recorded_at,
    min(run_id) as run_id,
    count(*) filter (where event = 'new') as new_count,
    count(*) filter (where event = 'changed') as changed_count,
    count(*) filter (where event = 'changed' and stands) as standing_count,
    count(*) filter (where event = 'confirmed') as confirmed_count,
    count(*) filter (where event = 'ended') as ended_count
from history.events
group by refresh
order by refresh

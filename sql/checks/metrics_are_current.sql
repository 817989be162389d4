-- grain: one method, training set and direction whose numbers are older than what they are made from
-- reads: main.metrics
-- units: numbers counts rows of main.metrics
-- severity: warning
-- excludes: nothing
select
    encoder,
    method,
    trained_on,
    evaluated_on,
    why_stale,
    count(*) as numbers,
    max(as_of) as as_of
from main.metrics
where is_stale
group by all
order by all

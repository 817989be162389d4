-- grain: one key that more than one row of main.metrics has
-- reads: main.metrics
-- units: copies counts rows
-- severity: error
-- excludes: nothing; the same measurement under other settings is another key
select
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    seed,
    settings,
    count(*) as copies
from main.metrics
group by all
having count(*) > 1

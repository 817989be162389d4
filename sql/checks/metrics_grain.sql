-- grain: one key of several rows of main.metrics
-- reads: main.metrics
-- units: copies counts rows
-- severity: error
-- excludes: nothing; the same measurement with other settings has another key
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

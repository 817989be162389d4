-- grain: one key of several rows of evaluation.measurements
-- reads: evaluation.measurements
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
from evaluation.measurements
group by all
having count(*) > 1

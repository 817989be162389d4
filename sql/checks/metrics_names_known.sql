-- grain: one row of evaluation.measurements with an unknown embedding
-- reads: evaluation.measurements
-- units: none
-- severity: error
-- excludes: names of tasks, methods and metrics: users name variants, and a new task needs no change of SQL
select
    task,
    embedding,
    method,
    encoder,
    metric
from evaluation.measurements
where embedding not in ('sentence', 'meaning', 'template', 'residual', 'language')

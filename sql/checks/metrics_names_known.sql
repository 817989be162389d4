-- grain: one row of main.metrics with an unknown embedding
-- reads: main.metrics
-- units: none
-- severity: error
-- excludes: names of tasks, methods and metrics: users name variants, and a new task needs no change of SQL
select
    task,
    embedding,
    method,
    encoder,
    metric
from main.metrics
where embedding not in ('sentence', 'meaning', 'template', 'residual', 'language')

-- grain: one row of main.metrics whose task or embedding has no meaning in the vocabulary
-- reads: main.metrics, main.scored_embeddings
-- units: none
-- severity: error
-- excludes: names of methods and metrics: users name variants, and a task may bring a metric of its own
select
    task,
    embedding,
    method,
    encoder,
    metric
from main.metrics
where
    task not in (select scored_embeddings.task from main.scored_embeddings)
    or embedding not in ('sentence', 'meaning', 'template', 'residual', 'language')

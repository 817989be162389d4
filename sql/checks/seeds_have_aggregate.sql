-- grain: one number that was measured for seeds but not aggregated
-- reads: main.seed_variance, evaluation.measurements
-- units: seeds counts rows
-- severity: error
-- excludes: aggregates without seeds, because an untrained method has none
with

aggregates as (

    select * from evaluation.measurements
    where seed is null

)

select
    seed_variance.task,
    seed_variance.dataset,
    seed_variance.method,
    seed_variance.encoder,
    seed_variance.trained_on,
    seed_variance.evaluated_on,
    seed_variance.embedding,
    seed_variance.metric,
    seed_variance.settings,
    seed_variance.seeds
from main.seed_variance
anti join aggregates
    using (task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, settings)

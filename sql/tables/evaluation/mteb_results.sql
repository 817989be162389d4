-- grain: one number in a result file of mteb
-- reads: inputs.mteb_results, a file per folder that the configuration names
-- units: as main.metrics where is_same, else as mteb has it
-- key: source, model, revision, experiment, embedding, seed, mteb_task, split, evaluated_on, mteb_metric
select
    source,
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    value,
    seed,
    mteb_task,
    mteb_metric,
    is_same,
    split,
    model,
    revision,
    experiment,
    settings,
    measured_at
from inputs.mteb_results

-- grain: one number, of one seed or (seed null) aggregated over seeds
-- reads: inputs.metrics, the rows that evaluation wrote, a file per method, encoder and trained_on
-- units: accuracies, F1 and MAP are fractions, 0 to 1; correlations -1 to 1; intervals are 95 %
-- key: task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, settings, seed
select
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    value,
    ci_low,
    ci_high,
    n,
    seed,
    settings,
    fingerprint,
    created_at
from inputs.metrics

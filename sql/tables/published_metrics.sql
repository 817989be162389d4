-- grain: one printed cell of a paper's table; its value is null if the paper prints none
-- reads: inputs.published_metrics, the CSV files of sql/published
-- units: as main.metrics; settings has the figure as printed if the paper prints percent
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
    null::double as ci_low,
    null::double as ci_high,
    n,
    null::bigint as seed,
    settings,
    null::varchar as fingerprint,
    null::timestamp as created_at,
    paper,
    "table",
    note
from inputs.published_metrics

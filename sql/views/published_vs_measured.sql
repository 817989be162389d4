-- grain: one published figure with one of ours for a data set, encoder and method, or with none
-- reads: parts.paper_cells
-- units: as main.metrics; difference is measured minus published; comparable: same data set and encoder
select
    paper,
    "table",
    task,
    method,
    published_trained_on as trained_on,
    evaluated_on,
    embedding,
    metric,
    examples,
    published_dataset,
    published_encoder,
    published,
    dataset as measured_dataset,
    encoder as measured_encoder,
    trained_on as measured_trained_on,
    measured,
    ci_low,
    ci_high,
    published_settings,
    settings as measured_settings,
    note,
    difference,
    comparable,
    why_missing,
    case
        when ci_low > published then 'above'
        when ci_high < published then 'below'
        when ci_low is not null then 'within'
    end as outcome
from parts.paper_cells
where published is not null
order by measured is null, paper, "table", task, method

-- grain: one cell of a paper's table with one data set, encoder and method of ours, or with none
-- reads: parts.table_cells, parts.measured_cells, parts.missing_reasons
-- units: as main.published_metrics; difference is measured minus published; comparable: same data, encoder
with

reasons as (

    select
        cells.cell_id,
        missing.status,
        missing.reason,
        min(missing.status) over (partition by cells.cell_id) as worst
    from parts.table_cells as cells
    inner join parts.missing_reasons as missing
        on
            (missing.kind = 'dataset' and cells.dataset = missing.name)
            or (missing.kind = 'encoder' and cells.encoder = missing.name)
            or (missing.kind = 'method' and cells.method = missing.name)
            or (missing.kind = 'task' and cells.task = missing.name)
            or (missing.kind = 'metric' and cells.metric = missing.name)
    where not cells.is_open

),

verdicts as (

    select
        cell_id,
        any_value(worst) as status,
        string_agg(reason, '; ' order by reason) as reason
    from reasons
    where status = worst
    group by cell_id

),

-- If one cell of a row was measured, the whole row shows the data set, encoder and method.
row_runs as (

    select distinct
        cells.paper_row,
        measured.dataset,
        measured.encoder,
        measured.row_method,
        measured.training
    from parts.measured_cells as measured
    inner join parts.table_cells as cells using (cell_id)
    where not cells.is_open

),

printed as (

    select
        cells.*,
        row_runs.dataset as run_dataset,
        row_runs.encoder as run_encoder,
        row_runs.row_method as run_method,
        cells.embedding as run_embedding,
        row_runs.training as run_training
    from parts.table_cells as cells
    left join row_runs using (paper_row)
    where not cells.is_open

),

ours as (

    select
        cells.*,
        measured.dataset as run_dataset,
        measured.encoder as run_encoder,
        measured.row_method as run_method,
        measured.own_embedding as run_embedding,
        measured.training as run_training
    from parts.table_cells as cells
    inner join parts.measured_cells as measured using (cell_id)
    where cells.is_open

),

cells as (

    select * from printed
    union all
    select * from ours

),

beside as (

    select
        cells.*,
        measured.measured,
        measured.measured_mean,
        -- cells has ci_low and ci_high of the paper, where no figure has an interval
        measured.ci_low as own_low,
        measured.ci_high as own_high,
        measured.n_parts,
        measured.of_parts,
        measured.trained_on as run_trained_on,
        measured.settings as run_settings,
        coalesce(measured.is_seen, true) as is_seen,
        case
            when measured.measured is null
                then coalesce(verdicts.status, 'not_run')
            else 'measured'
        end as status,
        case
            when measured.measured is not null then null
            when measured.n_parts > 0
                then format(
                    '{} of {} parts measured, mean {:.3f}',
                    measured.n_parts, measured.of_parts, measured.measured_mean
                )
            when verdicts.status = 'impossible' then verdicts.reason
            when cells.run_dataset is not null
                then format(
                    'not run yet: {} on {} with {}', cells.base_method, cells.run_dataset, cells.run_encoder
                )
            else 'not run yet: ' || verdicts.reason
        end as why_missing
    from cells
    left join parts.measured_cells as measured
        on
            cells.cell_id = measured.cell_id
            and cells.run_dataset = measured.dataset
            and cells.run_encoder = measured.encoder
            and coalesce(cells.run_method, '') = coalesce(measured.row_method, '')
            and coalesce(cells.run_training, '') = coalesce(measured.training, '')
            and cells.run_embedding = coalesce(measured.own_embedding, cells.run_embedding)
    left join verdicts on cells.cell_id = verdicts.cell_id

)

select
    paper,
    "table",
    paper_row,
    row_label,
    column_label,
    task,
    metric,
    printed_as,
    run_embedding as embedding,
    examples,
    evaluated_on,
    encoder as published_encoder,
    trained_on as published_trained_on,
    note,
    run_dataset as dataset,
    run_encoder as encoder,
    run_trained_on as trained_on,
    run_settings as settings,
    value as published,
    measured,
    own_low as ci_low,
    own_high as ci_high,
    n_parts,
    of_parts,
    status,
    why_missing,
    case when is_open then null else cell_id end as cell_id,
    coalesce(run_method, method) as method,
    coalesce(run_training, case when paper = 'fmda' and rows_are_methods then 'each pair' end) as training,
    case when is_open then null else dataset end as published_dataset,
    case when is_open then null else settings end as published_settings,
    round(measured - value, 6) as difference,
    measured is not null and not is_seen as is_zero_shot,
    measured is not null
    and not is_open
    and run_dataset in (dataset, case dataset when 'wmt20_qe' then 'mlqe' when 'masakhaner' then 'ner' end)
    and regexp_replace(replace(lower(run_encoder), '-', '_'), '_(cls|mean|max|pooler|dense|layer_\d+)$', '')
    = encoder as comparable
from beside

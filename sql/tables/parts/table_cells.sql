-- grain: one printed cell, or (is_open) one place of the table for methods that the paper lacks
-- reads: main.published_metrics, parts.paper_tables
-- units: as main.published_metrics; cell_id counts from 1, printed ones first; paper_row is a row's first
-- key: cell_id
with

named as (

    select
        *,
        settings ->> 'model' as printed_as,
        settings ->> 'average_over' as average_over,
        (settings ->> 'train_examples')::bigint as examples,
        (settings ->> 'negatives_per_positive')::bigint as negatives,
        case when settings ->> 'transfer' is null then 'none' else 'sequential' end as transfer,
        row_number() over () as cell_id,
        -- Encoders that a paper lists as systems.
        case when method in ('laser', 'multilingual_sbert') then 'raw' else method end as base_method,
        regexp_replace(metric, '_(relative_change|drop|difference|std)$', '') as base_metric,
        coalesce(
            nullif(regexp_extract(metric, '_(relative_change|drop|difference|std)$', 1), ''), 'mean'
        ) as statistic,
        case
            when paper = 'fmda'
                then coalesce(nullif(trained_on, ''), settings ->> 'column_group')
        end as trained_pair
    from main.published_metrics

),

labelled as (

    select
        cells.*,
        paper_tables.rows_are_methods,
        paper_tables.takes_ours,
        case
            when cells.paper = 'fmda' and cells."table" = 'T9' then cells.evaluated_on
            when cells.paper = 'dream' and cells."table" = 'T6' then cells.method
            when cells.paper = 'emu' and cells."table" = 'T3' then cells.trained_on
            when cells.paper = 'emu' and cells."table" = 'T4' then split_part(cells.evaluated_on, '-', 1)
            when cells.paper = 'emu' and cells."table" = 'T5' then cells.settings ->> 'component'
            else cells.printed_as
        end as row_label,
        replace(lower(case
            when cells.paper = 'fmda' and cells."table" in ('T3', 'T6')
                then cells.trained_pair || '_on_' || cells.evaluated_on
            when cells.paper = 'fmda' and cells."table" = 'T9'
                then case
                    when cells.method = 'fmda_unified'
                        then 'fmda_multi'
                    else cells.method || '_dual'
                end
            when cells.paper = 'dream' and cells."table" = 'T6' then cells.encoder
            when cells.paper = 'twosl' and cells."table" = 'T3' then 'examples_' || cells.examples
            when cells.paper = 'twosl' and cells."table" = 'T4'
                then cells.evaluated_on || '_' || cells.examples
            when cells.paper = 'oracle' and cells."table" = 'T3'
                then cells.average_over || '_' || cells.evaluated_on
            when cells.paper = 'oracle' and cells."table" = 'T4'
                then case when cells.task = 'sts' then 'sts' else split_part(cells.average_over, ',', 1) end
            when cells.paper = 'oracle' and cells."table" = 'text' then split_part(cells.average_over, ' ', 1)
            when cells.paper = 'emu' and cells."table" = 'T4' then split_part(cells.evaluated_on, '-', -1)
            when cells.paper = 'emu' and cells."table" = 'T5' then cells.dataset
            when cells.evaluated_on = 'average' then 'avg'
            when cells.task in ('sts', 'intent_knn') and not contains(cells.evaluated_on, '-')
                then cells.evaluated_on || '_' || cells.evaluated_on
            else split_part(cells.evaluated_on, '+', 1)
        end), '-', '_') as column_label
    from named as cells
    inner join parts.paper_tables using (paper, "table")

),

-- One cell for each column; of several averages, the one over the most parts.
open_cells as (

    select *
    from labelled
    where takes_ours
    qualify row_number() over (
        partition by paper, "table", column_label, examples
        order by length(coalesce(average_over, '')) desc, cell_id
    ) = 1

)

select
    *,
    false as is_open,
    min(cell_id) over (
        partition by
            paper, "table", row_label,
            case when rows_are_methods then [method, encoder, embedding, examples::varchar] end
    ) as paper_row
from labelled
union all
select
    * replace (
        null as printed_as,
        null as row_label,
        null as method,
        null as base_method,
        null as encoder,
        null as trained_on,
        null as embedding,
        null as value,
        cell_id + (select count(*) from named) as cell_id
    ),
    true as is_open,
    null as paper_row
from open_cells

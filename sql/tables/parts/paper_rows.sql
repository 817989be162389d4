-- grain: one cell of parts.paper_cells
-- reads: parts.paper_cells, parts.paper_tables
-- units: trained_on and why_missing are texts for the whole row of the table
with

cells as (

    select * rename (trained_on as cell_trained_on, why_missing as cell_missing)
    from parts.paper_cells

),

rows as (

    select
        cells.*,
        case
            when cells.cell_missing is null or cells.n_parts is null
                then cells.cell_missing
            else cells.column_label || ': ' || cells.cell_missing
        end as cell_reason,
        hash(
            cells.paper, cells."table", cells.paper_row, cells.dataset, cells.encoder, cells.training,
            case
                when paper_tables.rows_are_methods
                    then [cells.method, cells.embedding, cells.examples::varchar]
                else []
            end
        ) as row_key
    from cells
    inner join parts.paper_tables using (paper, "table")

),

texts as (

    select
        row_key,
        string_agg(distinct cell_trained_on, ', ' order by cell_trained_on) as trained_on,
        string_agg(distinct cell_reason, '; ' order by cell_reason) as why_missing
    from rows
    group by row_key

)

select
    rows.*,
    texts.trained_on,
    texts.why_missing
from rows
inner join texts using (row_key)

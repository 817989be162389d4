-- grain: one printed cell that is in no table, or is empty without a reason
-- reads: main.published_metrics, parts.paper_cells
-- units: printed counts the cells of main.published_metrics, placed those of parts.paper_cells
-- severity: error
-- excludes: nothing; a reason is a row of parts.missing_reasons, at least for the data set
with

printed as (

    select
        paper,
        "table",
        count(*) as printed
    from main.published_metrics
    group by paper, "table"

),

placed as (

    select
        paper,
        "table",
        count(distinct cell_id) as placed,
        count_if(measured is null and why_missing is null) as unexplained
    from parts.paper_cells
    group by paper, "table"

)

select
    printed.*,
    placed.placed,
    placed.unexplained
from printed
left join placed using (paper, "table")
where printed.printed <> coalesce(placed.placed, 0) or placed.unexplained > 0

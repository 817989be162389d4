-- grain: one line of $paper's table $number ($shows), for each data set and encoder of ours
-- reads: parts.paper_rows
-- units: $units
with

cells as (

    select * from parts.paper_rows
    where paper = '$paper' and regexp_full_match("table", 'T$number[a-z]?')

),

wide as (

    pivot cells
    on column_label in ("$labels")
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by paper_row, "$grouping", dataset, encoder, trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by dataset nulls first, encoder nulls first, paper_row nulls last, "$ordering"

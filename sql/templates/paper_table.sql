-- grain: one line of $paper's table $number ($shows), for each data set and encoder of ours
-- reads: parts.paper_rows
-- units: $units
with

cells as (

    select
        paper_row,
        "$grouping",
        dataset,
        encoder,
        trained_on,
        why_missing,
        column_label,
        published,
        measured,
        difference
    from parts.paper_rows
    where paper = '$paper' and regexp_full_match("table", 'T$number[a-z]?')

),

wide as (

    select *
    from cells
    pivot ( -- noqa: PRS
        first(published) as published, first(measured) as measured, first(difference) as difference
        for column_label in ("$labels")
    )

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by dataset nulls first, encoder nulls first, paper_row nulls last, "$ordering"

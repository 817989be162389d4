-- grain: one row of FMDA's table 9 (one pair or a mixture), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, fractions; row_label is what is evaluated on; en is the mean of three models
with

cells as (

    select * from main.paper_rows
    where paper = 'fmda' and "table" = 'T9'

),

wide as (

    pivot cells
    on column_label in ('dream_dual', 'fmda_dual', 'fmda_multi')
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by
        paper_row, row_label, dataset, encoder, trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by
    dataset nulls first, encoder nulls first, paper_row nulls last, row_label

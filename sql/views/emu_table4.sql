-- grain: one row of EMU's table 4 (all directions), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1 over the encoder's, minus 1; row_label is the query's language, a column the pool's
with

cells as (

    select * from main.paper_rows
    where paper = 'emu' and "table" = 'T4'

),

wide as (

    pivot cells
    on column_label in ('en', 'de', 'es', 'fr', 'zh', 'ja')
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

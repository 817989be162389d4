-- grain: one row of EMU's table 5 (parts left out), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy lost without the part (row_label), mean over 11 directions; columns are the paper's data
with

cells as (

    select * from main.paper_rows
    where paper = 'emu' and "table" = 'T5'

),

wide as (

    pivot cells
    on column_label in ('hotelqa', 'atis', 'quora')
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

-- grain: one row of DREAM's table 6 (losses left out), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: Pearson's correlation of quality estimation, mean over the pairs; columns are the paper's encoders
with

cells as (

    select * from main.paper_rows
    where paper = 'dream' and "table" = 'T6'

),

wide as (

    pivot cells
    on column_label in ('mbert', 'xlm_roberta_large', 'labse')
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

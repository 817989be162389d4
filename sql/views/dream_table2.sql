-- grain: one row of DREAM's table 2 (quality estimation), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: Pearson's correlation, -1 to 1
with

cells as (

    select * from main.paper_rows
    where paper = 'dream' and "table" = 'T2'

),

wide as (

    pivot cells
    on column_label in ('en_de', 'en_zh', 'ro_en', 'et_en', 'ne_en', 'si_en', 'avg')
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by
        paper_row, printed_as, published_encoder, method, embedding, dataset, encoder,
        trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by
    dataset nulls first, encoder nulls first, paper_row nulls last, method, embedding

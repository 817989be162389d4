-- grain: one row of TWOSL's table 2 (slots of xSID), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: micro F1 of tokens without O, fractions; examples counts training sentences
with

cells as (

    select * from main.paper_rows
    where paper = 'twosl' and "table" = 'T2'

),

wide as (

    pivot cells
    on column_label in ('ar', 'de', 'da', 'de_st', 'id', 'it', 'kk', 'nl', 'sr', 'tr', 'avg')
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by
        paper_row, printed_as, published_encoder, method, embedding, examples, dataset, encoder,
        trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by
    dataset nulls first, encoder nulls first, paper_row nulls last, examples, method, embedding

-- grain: one row of ORACLE's table 3 (Tatoeba), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, fractions, mean over languages; en_xx: query English; of language, lower is better
with

cells as (

    select * from main.paper_rows
    where paper = 'oracle' and "table" = 'T3'

),

wide as (

    pivot cells
    on column_label in ('tatoeba_14_en_xx', 'tatoeba_14_xx_en', 'tatoeba_36_en_xx', 'tatoeba_36_xx_en')
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

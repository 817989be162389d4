-- grain: one row of ORACLE's table 4 (constraints left out), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, mean of languages and directions; Spearman's correlation, mean of 10 sets
with

cells as (

    select * from main.paper_rows
    where paper = 'oracle' and "table" = 'T4'

),

wide as (

    pivot cells
    on column_label in ('tatoeba_14', 'tatoeba_36', 'sts')
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

-- grain: one row of TWOSL's table 3 (slots of English ATIS), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: micro F1 of tokens without O, fractions; columns count training sentences
with

cells as (

    select * from main.paper_rows
    where paper = 'twosl' and "table" = 'T3'

),

wide as (

    pivot cells
    on column_label in ('examples_50', 'examples_100', 'examples_200')
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

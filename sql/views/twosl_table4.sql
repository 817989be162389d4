-- grain: one row of TWOSL's table 4 (MultiATIS++ after English), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: micro F1 of tokens without O, fractions; columns count training sentences
with

cells as (

    select * from main.paper_rows
    where paper = 'twosl' and "table" = 'T4'

),

wide as (

    pivot cells
    on column_label in ('de_50', 'fr_50', 'de_100', 'fr_100', 'de_200', 'fr_200', 'de_500', 'fr_500')
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

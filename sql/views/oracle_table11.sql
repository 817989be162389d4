-- grain: one row of ORACLE's table 11 (code-switched sentences), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, fractions; of the language embedding, lower is better
with

cells as (

    select * from main.paper_rows
    where paper = 'oracle' and "table" = 'T11'

),

wide as (

    pivot cells
    on column_label in ('en_ar', 'en_de', 'en_es', 'en_fr', 'en_it', 'en_nl', 'en_pt', 'en_ro', 'avg')
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

-- grain: one row of ORACLE's table 10 (similarity), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: Spearman's correlation, -1 to 1; of the language embedding, lower is better
with

cells as (

    select * from main.paper_rows
    where paper = 'oracle' and "table" = 'T10'

),

wide as (

    pivot cells
    on column_label in (
        'ar_ar', 'en_en', 'es_es', 'en_ar', 'en_de', 'en_tr', 'en_es', 'en_fr', 'en_it', 'en_nl',
        'avg'
    )
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

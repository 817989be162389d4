-- grain: one row of FMDA's table 2 (translation retrieval), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, fractions
with

cells as (

    select * from main.paper_rows
    where paper = 'fmda' and "table" = 'T2'

),

wide as (

    pivot cells
    on column_label in ('en_de', 'de_en', 'en_es', 'es_en', 'en_ja', 'ja_en')
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by
        paper_row, printed_as, published_encoder, method, embedding, training, dataset, encoder,
        trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by
    dataset nulls first, encoder nulls first, paper_row nulls last, method, training,
    list_position(['sentence', 'meaning', 'template', 'residual', 'language'], embedding)

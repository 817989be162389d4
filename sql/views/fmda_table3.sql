-- grain: one row of FMDA's table 3 (template retrieval), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, fractions; en_de_on_de is the en-de model on German
with

cells as (

    select * from main.paper_rows
    where paper = 'fmda' and "table" = 'T3'

),

wide as (

    pivot cells
    on column_label in (
        'en_de_on_en', 'en_de_on_de', 'en_es_on_en', 'en_es_on_es', 'en_ja_on_en', 'en_ja_on_ja'
    )
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

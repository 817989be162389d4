-- grain: one row of FMDA's table 5 (training in two stages), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1, fractions: translation retrieval, then template retrieval on en and de
with

cells as (

    select * from main.paper_rows
    where paper = 'fmda' and "table" = 'T5'

),

wide as (

    pivot cells
    on column_label in ('en_de', 'de_en', 'en', 'de')
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

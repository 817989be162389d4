-- grain: one row of EMU's table 2 (intents), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1 of the nearest other item, fractions; en_de: query English
with

cells as (

    select * from main.paper_rows
    where paper = 'emu' and "table" in ('T2a', 'T2b', 'T2c')

),

wide as (

    pivot cells
    on column_label in (
        'en_en', 'en_de', 'en_es', 'en_fr', 'en_ja', 'en_zh', 'de_en', 'es_en', 'fr_en', 'ja_en',
        'zh_en'
    )
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by
        paper_row, printed_as, published_encoder, published_dataset, method, embedding, dataset,
        encoder, trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by
    dataset nulls first, encoder nulls first, paper_row nulls last, method, embedding

-- grain: one row of EMU's table 3 (languages of training), for each data set and encoder of ours
-- reads: main.paper_rows
-- units: accuracy at 1 divided by the encoder's, minus 1; row_label is what intents were read in
with

cells as (

    select * from main.paper_rows
    where paper = 'emu' and "table" = 'T3'

),

wide as (

    pivot cells
    on column_label in ('en_en', 'en_de', 'en_fr', 'de_en', 'de_de', 'de_fr', 'fr_en', 'fr_de', 'fr_fr')
    using first(published) as published, first(measured) as measured, first(difference) as difference
    group by
        paper_row, row_label, dataset, encoder, trained_on, why_missing

)

select
    * exclude (paper_row, why_missing),
    why_missing
from wide
order by
    dataset nulls first, encoder nulls first, paper_row nulls last, row_label

-- grain: one embedding of one method, training, data set and encoder; table 3 of FMDA
-- reads: main.fmda_cells
-- units: accuracy at 1 of template retrieval, a fraction; en_de_on_de is the en-de model on German
with

cells as (

    select * from main.fmda_cells
    where "table" = 'T3'

)

select
    method,
    embedding,
    training,
    dataset,
    encoder,
    max(published) filter (where cell = 'en_de_on_en') as en_de_on_en_published,
    max(measured) filter (where cell = 'en_de_on_en') as en_de_on_en_measured,
    max(difference) filter (where cell = 'en_de_on_en') as en_de_on_en_difference,
    max(published) filter (where cell = 'en_de_on_de') as en_de_on_de_published,
    max(measured) filter (where cell = 'en_de_on_de') as en_de_on_de_measured,
    max(difference) filter (where cell = 'en_de_on_de') as en_de_on_de_difference,
    max(published) filter (where cell = 'en_es_on_en') as en_es_on_en_published,
    max(measured) filter (where cell = 'en_es_on_en') as en_es_on_en_measured,
    max(difference) filter (where cell = 'en_es_on_en') as en_es_on_en_difference,
    max(published) filter (where cell = 'en_es_on_es') as en_es_on_es_published,
    max(measured) filter (where cell = 'en_es_on_es') as en_es_on_es_measured,
    max(difference) filter (where cell = 'en_es_on_es') as en_es_on_es_difference,
    max(published) filter (where cell = 'en_ja_on_en') as en_ja_on_en_published,
    max(measured) filter (where cell = 'en_ja_on_en') as en_ja_on_en_measured,
    max(difference) filter (where cell = 'en_ja_on_en') as en_ja_on_en_difference,
    max(published) filter (where cell = 'en_ja_on_ja') as en_ja_on_ja_published,
    max(measured) filter (where cell = 'en_ja_on_ja') as en_ja_on_ja_measured,
    max(difference) filter (where cell = 'en_ja_on_ja') as en_ja_on_ja_difference
from cells
group by method, embedding, training, dataset, encoder
order by
    dataset nulls first,
    encoder nulls first,
    list_position(['raw', 'dream', 'fmda'], method) nulls last,
    method,
    training,
    list_position(['sentence', 'meaning', 'template', 'residual', 'language'], embedding)

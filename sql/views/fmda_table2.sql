-- grain: one embedding of one method, training, data set and encoder; table 2 of FMDA
-- reads: main.fmda_cells
-- units: accuracy at 1 of cross-lingual retrieval, a fraction; columns are query and pool language
with

cells as (

    select * from main.fmda_cells
    where "table" = 'T2'

)

select
    method,
    embedding,
    training,
    dataset,
    encoder,
    max(published) filter (where cell = 'en_de') as en_de_published,
    max(measured) filter (where cell = 'en_de') as en_de_measured,
    max(difference) filter (where cell = 'en_de') as en_de_difference,
    max(published) filter (where cell = 'de_en') as de_en_published,
    max(measured) filter (where cell = 'de_en') as de_en_measured,
    max(difference) filter (where cell = 'de_en') as de_en_difference,
    max(published) filter (where cell = 'en_es') as en_es_published,
    max(measured) filter (where cell = 'en_es') as en_es_measured,
    max(difference) filter (where cell = 'en_es') as en_es_difference,
    max(published) filter (where cell = 'es_en') as es_en_published,
    max(measured) filter (where cell = 'es_en') as es_en_measured,
    max(difference) filter (where cell = 'es_en') as es_en_difference,
    max(published) filter (where cell = 'en_ja') as en_ja_published,
    max(measured) filter (where cell = 'en_ja') as en_ja_measured,
    max(difference) filter (where cell = 'en_ja') as en_ja_difference,
    max(published) filter (where cell = 'ja_en') as ja_en_published,
    max(measured) filter (where cell = 'ja_en') as ja_en_measured,
    max(difference) filter (where cell = 'ja_en') as ja_en_difference
from cells
group by method, embedding, training, dataset, encoder
order by
    dataset nulls first,
    encoder nulls first,
    list_position(['raw', 'dream', 'fmda'], method) nulls last,
    method,
    training,
    list_position(['sentence', 'meaning', 'template', 'residual', 'language'], embedding)

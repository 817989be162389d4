-- grain: a data set's language, or two of them, as `evaluated_on` names them: `de`, `en-de`, `en-zh-CN`
-- reads: corpora.utterances
-- units: none
-- key: dataset, evaluated_on
with

languages as (

    select distinct
        corpus as dataset,
        language
    from corpora.utterances

)

select
    dataset,
    language as evaluated_on,
    language as query_language,
    language as pool_language
from languages
union all
select
    queries.dataset,
    queries.language || '-' || pool.language as evaluated_on,
    queries.language as query_language,
    pool.language as pool_language
from languages as queries
inner join languages as pool using (dataset)
-- A language such as `de-st` is no pair of `de` and `st`.
anti join languages as whole
    on queries.dataset = whole.dataset and queries.language || '-' || pool.language = whole.language
order by dataset, evaluated_on

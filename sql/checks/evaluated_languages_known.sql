-- grain: one task and evaluated_on with a language that its data set lacks
-- reads: evaluation.measurements, corpora.utterances
-- units: none
-- severity: warning
-- excludes: averages, and data sets without loaded utterances (such as sentence pairs)
with

languages as (

    select distinct
        corpus,
        language
    from corpora.utterances

),

evaluated as (

    select distinct
        task,
        dataset,
        evaluated_on
    from evaluation.measurements
    where
        evaluated_on <> 'average'
        and dataset in (select languages.corpus from languages)

),

named as (

    select
        *,
        unnest(regexp_split_to_array(evaluated_on, '[-+]')) as part
    from evaluated

)

select
    named.task,
    named.dataset,
    named.evaluated_on,
    named.part
from named
anti join languages on named.dataset = languages.corpus and named.part = languages.language
-- `de-st` is one language whose code has a hyphen, not a pair
anti join languages as whole
    on named.dataset = whole.corpus and named.evaluated_on = whole.language

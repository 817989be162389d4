-- grain: one task and evaluated_on with a language that its data set lacks
-- reads: evaluation.measurements, parts.directions
-- units: none
-- severity: warning
-- excludes: averages, and data sets without loaded utterances (such as sentence pairs)
with

evaluated as (

    select distinct
        task,
        dataset,
        evaluated_on
    from evaluation.measurements
    where
        evaluated_on <> 'average'
        and dataset in (select directions.dataset from parts.directions)

),

named as (

    select
        *,
        unnest(string_split(evaluated_on, '+')) as part
    from evaluated

)

select
    named.task,
    named.dataset,
    named.evaluated_on,
    named.part
from named
anti join parts.directions as directions
    on named.dataset = directions.dataset and named.part = directions.evaluated_on

-- grain: one member of a dimension: of a column that says what a number of main.metrics measures
-- reads: evaluation.measurements, main.catalogue
-- units: numbers counts rows of main.metrics
-- key: dimension, member
with

named as (

    select
        unnest([
            'task', 'dataset', 'method', 'encoder', 'trained_on',
            'evaluated_on', 'embedding', 'metric', 'seed'
        ]) as dimension,
        unnest([
            task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed::varchar
        ]) as member
    from evaluation.measurements

)

select
    named.dimension,
    named.member,
    count(*) as numbers,
    any_value(catalogue.description) as description
from named
left join main.catalogue as catalogue
    on catalogue.relation = 'main.metrics' and named.dimension = catalogue.column_name
group by named.dimension, named.member
order by named.dimension asc, numbers desc, named.member asc

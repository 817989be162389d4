-- grain: one number of one method over its seeds
-- reads: evaluation.measurements, the rows of single seeds
-- units: as value of main.metrics; std is the sample deviation (n - 1), null for one seed
-- key: number_id
with

seed_rows as (

    select * from evaluation.measurements
    where seed is not null

)

select
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    settings,
    count(*) as seeds,
    avg(value) as mean,
    stddev_samp(value) as std,
    min(value) as min,
    max(value) as max,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings,
        method, trained_on, embedding
    )), 16) as number_id,
    left(md5(concat_ws(
        '|', task, dataset, encoder, evaluated_on, metric, settings
    )), 16) as problem_id
from seed_rows
group by all

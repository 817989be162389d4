-- grain: one ranking with a missing or repeated rank, or with scores in another order
-- reads: evaluation.rankings
-- units: ranks count from 1
-- severity: error
-- excludes: nothing; ties share a score but not a rank, and 1e-6 allows for the rounding of float32
with

candidates as (

    select
        *,
        row_number() over query as place,
        lag(score) over query as score_before
    from evaluation.rankings
    window query as (
        partition by
            task, dataset, method, encoder, trained_on, evaluated_on, embedding, seed, query_id
        order by rank
    )

)

select
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    seed,
    query_id,
    count(*) as candidates
from candidates
group by all
having bool_or(rank <> place) or bool_or(score > score_before + 1e-6)

-- grain: as history.metrics, each row with the row of the same number before it
-- reads: history.metrics, parts.readings, parts.scored_embeddings
-- units: as main.metrics; difference is value minus value_before; stands: the 95 % intervals do not overlap
-- key: refresh, task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
with

pairs as (

    select
        *,
        lag(value) over earlier as value_before,
        lag(ci_low) over earlier as ci_low_before,
        lag(ci_high) over earlier as ci_high_before,
        lag(n) over earlier as n_before,
        lag(code) over earlier as code_before,
        lag(data) over earlier as data_before,
        lag(weights) over earlier as weights_before,
        lag(vectors) over earlier as vectors_before,
        lag(refresh) over earlier as refresh_before,
        lag(recorded_at) over earlier as recorded_before,
        value - lag(value) over earlier as difference
    from history.metrics
    window earlier as (
        partition by
            task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
        order by refresh
    )

),

judged as (

    select
        pairs.*,
        readings.reads_as,
        pairs.seed is null
        and readings.hubness = 'none'
        and readings.reads_as != 'a choice, not a score'
        and (pairs.task, pairs.embedding) in (
            select (scored_embeddings.task, scored_embeddings.embedding) from parts.scored_embeddings
        ) as is_ranked
    from pairs
    inner join parts.readings as readings using (task, embedding, metric, settings)

)

select
    refresh,
    recorded_at,
    refresh_before,
    recorded_before,
    event,
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    seed,
    value_before,
    value,
    ci_low_before,
    ci_high_before,
    ci_low,
    ci_high,
    n_before,
    n,
    settings,
    problem,
    number_id,
    problem_id,
    run_id,
    difference,
    difference_low,
    difference_high,
    p_value,
    p_holm,
    test,
    reads_as,
    is_ranked,
    case
        when difference != 0
            then case when (difference > 0) = (reads_as = 'higher is better') then 'better' else 'worse' end
    end as change,
    ci_low > ci_high_before or ci_high < ci_low_before as stands,
    case
        when event in ('changed', 'confirmed') and (code is null or code_before is null) then 'unknown'
        when event in ('changed', 'confirmed')
            then nullif(
                concat_ws(
                    ', ',
                    case when code != code_before then 'code or settings' end,
                    case when data != data_before then 'evaluated data' end,
                    case when vectors != vectors_before then 'encoder' end,
                    case when weights is distinct from weights_before then 'trained weights' end
                ),
                ''
            )
    end as why
from judged

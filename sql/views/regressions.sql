-- grain: one number that ranks methods and that the last refresh has made worse, beyond both intervals
-- reads: history.events, history.metrics
-- units: as history.events; the items before are not kept, so both intervals stand for a paired test
-- key: number_id
with

worse as (

    select
        *,
        ci_low - ci_high_before as difference_low,
        ci_high - ci_low_before as difference_high
    from history.events
    where
        refresh = (select max(metrics.refresh) from history.metrics as metrics)
        and event = 'changed'
        and is_ranked
        and change = 'worse'
        and stands

),

-- The sum of both standard errors: however the values are correlated, that of the difference is not larger.
scaled as (

    select
        *,
        2 * 1.959964 * abs(difference) / (difference_high - difference_low) as z
    from worse

),

-- By Abramowitz and Stegun's formula 26.2.17, as in main.claim_cells.
tails as (

    select
        *,
        1 / (1 + 0.2316419 * z) as t
    from scaled

)

select
    refresh,
    method,
    encoder,
    task,
    dataset,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    value_before as before,
    value as after,
    difference,
    difference_low,
    difference_high,
    reads_as,
    why,
    settings,
    number_id,
    problem_id,
    recorded_at,
    least(1.0, 2 * exp(-z * z / 2) / sqrt(2 * pi()) * t * (0.319381530 + t * (
        -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    ))) as p_value
from tails
order by
    z desc, task asc, dataset asc, method asc, encoder asc, trained_on asc, evaluated_on asc,
    embedding asc, metric asc, settings asc

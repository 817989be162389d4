-- grain: one claim on one encoder, training pair and evaluated pair, where both sides were measured
-- reads: parts.claims, main.metrics
-- units: values as main.metrics, means over seeds; found is the measured statistic of parts.claims
with

aggregates as (

    select * from main.metrics
    where seed is null

),

-- An untrained method is the same for every training pair.
sides as (

    select
        claims.*,
        measured.dataset,
        measured.encoder,
        measured.trained_on,
        measured.evaluated_on,
        measured.n,
        measured.settings,
        measured.value as left_value,
        other.value as right_value,
        measured.ci_low as left_low,
        measured.ci_high as left_high,
        other.ci_low as right_low,
        other.ci_high as right_high
    from parts.claims as claims
    inner join aggregates as measured
        on
            claims.task = measured.task
            and claims.metric = measured.metric
            and claims.left_method = measured.method
            and claims.left_embedding = measured.embedding
    inner join aggregates as other
        on
            claims.task = other.task
            and claims.metric = other.metric
            and claims.right_method = other.method
            and claims.right_embedding = other.embedding
            and measured.dataset = other.dataset
            and measured.encoder = other.encoder
            and measured.evaluated_on = other.evaluated_on
            and measured.settings = other.settings
            and other.trained_on in (measured.trained_on, '')
    -- Claims on similarity are about two languages, and claims on quality about the official gold score.
    where
        (
            claims.task <> 'sts'
            or split_part(measured.evaluated_on, '-', 1) <> split_part(measured.evaluated_on, '-', -1)
        )
        and coalesce(try_cast(measured.settings as json) ->> 'gold', 'z_mean') = 'z_mean'

),

compared as (

    select
        *,
        case
            when statistic = 'ratio'
                then left_value / nullif(right_value, 0)
            else left_value - right_value
        end as found
    from sides

)

select
    claim,
    paper,
    task,
    dataset,
    encoder,
    trained_on,
    evaluated_on,
    n,
    left_method,
    left_embedding,
    left_value,
    left_low,
    left_high,
    right_method,
    right_embedding,
    right_value,
    right_low,
    right_high,
    statistic,
    found,
    settings,
    found >= coalesce(low, found) and found <= coalesce(high, found) as holds
from compared
order by claim, encoder, trained_on, evaluated_on

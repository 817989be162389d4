-- grain: one claim on one data set, encoder and problem, where both of its sides were measured
-- reads: parts.claim_sides, main.comparisons
-- units: margins are distances to the claim's bounds, positive inside; errors are their standard errors
-- key: claim, dataset, encoder, evaluated_on, settings, left_method, right_method, trained_on
--
-- standing is what the cell says of the claim:
--   for, against    it lies inside or outside of the bounds, and p_holm < 0.05
--   open            it lies on either side of a bound within noise
--   premise absent  the side that the claim starts from is not above the premise, so nothing can be tested
--   cut short       a side was still improving when its training ended
--   untested        there is neither a comparison nor an interval, or the premise was not measured
with

-- Every comparison from either side.
compared as (

    select
        [task, dataset, encoder, evaluated_on, metric, settings] as problem,
        [method_a, trained_on_a, embedding_a] as side,
        [method_b, trained_on_b, embedding_b] as other_side,
        (ci_high - ci_low) / (2 * 1.959964) as error,
        test,
        p_value
    from main.comparisons
    union all
    select
        [task, dataset, encoder, evaluated_on, metric, settings] as problem,
        [method_b, trained_on_b, embedding_b] as side,
        [method_a, trained_on_a, embedding_a] as other_side,
        (ci_high - ci_low) / (2 * 1.959964) as error,
        test,
        p_value
    from main.comparisons

),

beside as (

    select
        sides.*,
        compared.error as paired_error,
        premises.p_value as premise_p,
        case when sides.statistic = 'difference' then compared.p_value end as paired_p,
        case when sides.statistic = 'difference' then compared.test end as paired_test
    from parts.claim_sides as sides
    left join compared
        on
            sides.problem = compared.problem
            and sides.left_side = compared.side
            and sides.right_side = compared.other_side
    left join compared as premises
        on
            sides.problem = premises.problem
            and sides.right_side = premises.side
            and sides.premise_side = premises.other_side

),

-- Without a paired comparison of just this difference, its error is the sum of the errors of both sides:
-- however they are correlated, it is not larger.
measured as (

    select
        *,
        coalesce(paired_test, 'intervals') as test,
        case statistic
            when 'ratio' then left_value / nullif(right_value, 0)
            else left_value - right_value
        end as found,
        case statistic
            when 'ratio' then left_value - low * right_value
            else left_value - right_value - low
        end as margin_low,
        case statistic
            when 'ratio' then high * right_value - left_value
            else high - left_value + right_value
        end as margin_high,
        case
            when statistic = 'ratio' then left_error + low * right_error
            when low is not null then coalesce(paired_error, left_error + right_error)
        end as sampled_low,
        case
            when statistic = 'ratio' then left_error + high * right_error
            when high is not null then coalesce(paired_error, left_error + right_error)
        end as sampled_high,
        premise_method is null or coalesce(
            right_value > premise_value
            and coalesce(
                premise_p < 0.05,
                right_value - premise_value > 1.959964 * (right_error + premise_error)
            ),
            false
        ) as is_above_premise
    from beside

),

-- The rule of three bounds an error from below: n items that all agree do not exclude a difference of 3 / n.
bounded as (

    select
        *,
        case when sampled_low is not null then greatest(sampled_low, 1.5 / n) end as error_low,
        case when sampled_high is not null then greatest(sampled_high, 1.5 / n) end as error_high,
        is_above_premise
        and (premise_low is null or coalesce(right_low > premise_low, false))
        and (statistic <> 'ratio' or coalesce(right_low > 0, false)) as has_premise
    from measured

),

-- The bound that is nearer, or farther exceeded, decides.
placed as (

    select
        *,
        least(margin_low / error_low, margin_high / error_high) as z,
        case
            when
                (premise_method is not null and premise_value is null)
                or coalesce(error_low, error_high) is null
                then 'untested'
            when not has_premise then 'premise absent'
            when not is_run_out then 'cut short'
        end as excluded
    from bounded

),

-- A difference from 0 has the p of its comparison. Any other has that of the normal distribution, by
-- Abramowitz and Stegun's formula 26.2.17, which is right to 1e-7.
tails as (

    select
        *,
        1 / (1 + 0.2316419 * abs(z)) as t,
        statistic = 'difference'
        and paired_p is not null
        and coalesce(low, high) = 0
        and (low is null or high is null) as is_from_zero
    from placed

),

probable as (

    select
        *,
        case
            when is_from_zero then paired_p
            else least(1.0, 2 * exp(-z * z / 2) / sqrt(2 * pi()) * t * (0.319381530 + t * (
                -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
            )))
        end as p_value
    from tails

),

-- Holm's correction over the cells of the claim that can be judged, on the data set and encoder; p_page is
-- corrected over those of all claims, data sets and encoders.
steps as (

    select
        *,
        least(1.0, p_value * (
            count(*) over (partition by claim, dataset, encoder, excluded) + 1
            - row_number()
                over (partition by claim, dataset, encoder, excluded order by p_value, problem, left_side)
        )) as step,
        least(1.0, p_value * (
            count(*) over (partition by excluded) + 1
            - row_number()
                over (partition by excluded order by p_value, claim, dataset, encoder, problem, left_side)
        )) as page_step
    from probable

),

corrected as (

    select
        *,
        case when excluded is null then max(step) over (
            partition by claim, dataset, encoder, excluded order by p_value, problem, left_side
            rows unbounded preceding
        ) end as p_holm,
        case when excluded is null then max(page_step) over (
            partition by excluded order by p_value, claim, dataset, encoder, problem, left_side
            rows unbounded preceding
        ) end as p_page
    from steps

)

select
    claim,
    paper,
    task,
    dataset,
    encoder,
    problem_evaluated_on as evaluated_on,
    n,
    left_embedding,
    left_value,
    left_low,
    left_high,
    right_embedding,
    right_value,
    right_low,
    right_high,
    premise_value,
    statistic,
    found,
    margin_low,
    error_low,
    margin_high,
    error_high,
    test,
    p_holm,
    p_page,
    settings,
    coalesce(nullif(left_trained_on, ''), right_trained_on) as trained_on,
    left_side[1] as left_method,
    right_side[1] as right_method,
    case when excluded is null then p_value end as p_value,
    coalesce(excluded, case when p_holm >= 0.05 then 'open' when z > 0 then 'for' else 'against' end)
        as standing
from corrected
order by claim, encoder, dataset, trained_on, evaluated_on, settings

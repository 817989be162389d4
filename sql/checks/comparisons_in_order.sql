-- grain: one comparison whose numbers contradict each other, or that is there twice
-- reads: main.comparisons
-- units: as main.comparisons
-- severity: error
-- excludes: whether the interval holds the difference, which a bootstrap's need not; 1e-9 is for rounding
with

counted as (

    select
        *,
        count(*) over (
            partition by
                task, dataset, encoder, evaluated_on, metric, settings,
                method_a, trained_on_a, embedding_a, method_b, trained_on_b, embedding_b
        ) as copies
    from main.comparisons

)

select *
from counted
where
    copies > 1
    or abs(value_a - value_b - difference) > 1e-9
    or (ci_low is null) <> (ci_high is null)
    or not coalesce(p_value between 0 and 1 and p_holm between p_value - 1e-9 and 1, false)
    or n <= 0

-- grain: one comparison that is duplicated, or whose numbers contradict each other
-- reads: main.comparisons
-- units: as main.comparisons
-- severity: error
-- excludes: intervals without the difference, which a bootstrap may give; 1e-9 allows for rounding
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

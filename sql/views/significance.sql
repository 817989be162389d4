-- grain: one pair of methods on one problem
-- reads: main.comparisons
-- units: difference is value_a minus value_b; stands: p_holm < 0.05; best_beats: the sides below best
with

sides as (

    select
        *,
        method_a || ' (' || concat_ws(', ', embedding_a, nullif(trained_on_a, '')) || ')' as side_a,
        method_b || ' (' || concat_ws(', ', embedding_b, nullif(trained_on_b, '')) || ')' as side_b,
        p_holm < 0.05 as stands
    from main.comparisons

),

entries as (

    select
        task,
        dataset,
        encoder,
        evaluated_on,
        metric,
        settings,
        side_a as side,
        value_a as value,
        side_b as other,
        stands
    from sides
    union all
    select
        task,
        dataset,
        encoder,
        evaluated_on,
        metric,
        settings,
        side_b as side,
        value_b as value,
        side_a as other,
        stands
    from sides

),

-- Of equal values the first by name, so that the order of the rows has no effect.
best as (

    select
        task,
        dataset,
        encoder,
        evaluated_on,
        metric,
        settings,
        first(side order by value desc, side asc) as best
    from entries
    group by all

),

beaten as (

    select
        best.*,
        string_agg(
            distinct entries.other, ', ' order by entries.other
        ) filter (where entries.stands) as best_beats
    from best
    inner join entries
        using (task, dataset, encoder, evaluated_on, metric, settings)
    where entries.side = best.best
    group by all

)

select
    sides.task,
    sides.dataset,
    sides.encoder,
    sides.evaluated_on,
    sides.metric,
    sides.method_a,
    sides.trained_on_a,
    sides.embedding_a,
    sides.method_b,
    sides.trained_on_b,
    sides.embedding_b,
    sides.value_a,
    sides.value_b,
    sides.difference,
    sides.ci_low,
    sides.ci_high,
    sides.n,
    sides.test,
    sides.p_value,
    sides.p_holm,
    sides.stands,
    beaten.best,
    beaten.best_beats,
    sides.settings,
    case
        when not sides.stands
            then format(
                '{} and {} can''t be told apart ({:.3f} and {:.3f}, p = {:.3f})',
                sides.side_a, sides.side_b, sides.value_a, sides.value_b, sides.p_holm
            )
        when sides.difference > 0
            then format(
                '{} is above {} ({:.3f} to {:.3f}, p = {:.3f})',
                sides.side_a, sides.side_b, sides.value_a, sides.value_b, sides.p_holm
            )
        else format(
            '{} is below {} ({:.3f} to {:.3f}, p = {:.3f})',
            sides.side_a, sides.side_b, sides.value_a, sides.value_b, sides.p_holm
        )
    end as reads_as
from sides
left join beaten using (task, dataset, encoder, evaluated_on, metric, settings)
order by
    sides.task, sides.dataset, sides.encoder, sides.evaluated_on, sides.metric,
    sides.p_holm, sides.side_a, sides.side_b

-- grain: one pair of methods on one problem
-- reads: main.comparisons, parts.readings
-- units: difference is value_a minus value_b; stands: p_holm < 0.05; best_beats: sides worse than best
-- key: number_id_a, number_id_b
with

directed as (

    select
        comparisons.*,
        readings.hubness,
        ends_with(readings.reads_as, 'lower is better') as lower_is_better
    from main.comparisons as comparisons
    inner join parts.readings as readings
        on
            comparisons.task = readings.task
            and comparisons.embedding_a = readings.embedding
            and comparisons.metric = readings.metric
            and comparisons.settings = readings.settings

),

sides as (

    select
        *,
        method_a || ' (' || concat_ws(', ', embedding_a, nullif(trained_on_a, '')) || ')' as side_a,
        method_b || ' (' || concat_ws(', ', embedding_b, nullif(trained_on_b, '')) || ')' as side_b,
        p_holm < 0.05 as stands,
        case
            when p_holm >= 0.05 then null
            when (difference > 0) != lower_is_better then method_a
            else method_b
        end as winner,
        case when p_holm < 0.0005 then 'p < 0.001' else format('p = {:.3f}', p_holm) end as p
    from directed

),

entries as (

    select
        problem_id,
        side_a as side,
        case when lower_is_better then -value_a else value_a end as goodness,
        side_b as other,
        stands
    from sides
    union all
    select
        problem_id,
        side_b as side,
        case when lower_is_better then -value_b else value_b end as goodness,
        side_a as other,
        stands
    from sides

),

-- Of equals the first by name, so that the order of the rows has no effect.
best as (

    select
        problem_id,
        first(side order by goodness desc, side asc) as best
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
    inner join entries using (problem_id)
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
    sides.winner,
    beaten.best,
    beaten.best_beats,
    sides.settings,
    sides.hubness,
    sides.lower_is_better,
    sides.problem_id,
    sides.number_id_a,
    sides.number_id_b,
    format(
        '{} {} {} ({:.3f} {} {:.3f}, {}{}{})',
        sides.side_a,
        case
            when not sides.stands then 'and'
            when sides.difference > 0 then 'is above'
            else 'is below'
        end,
        sides.side_b || case when sides.stands then '' else ' can''t be told apart' end,
        sides.value_a,
        case when sides.stands then 'to' else 'and' end,
        sides.value_b,
        sides.p,
        case when sides.stands and sides.lower_is_better then '; lower is better' else '' end,
        case when sides.hubness != 'none' then '; hubness: ' || sides.hubness else '' end
    ) as reads_as
from sides
left join beaten using (problem_id)
order by
    sides.task, sides.dataset, sides.encoder, sides.evaluated_on, sides.metric,
    sides.p_holm, sides.side_a, sides.side_b

-- grain: one method on one task, data set, encoder and direction, with the number that ranks methods
-- reads: main.leaderboard, parts.trained_sets
-- units: as main.leaderboard; rank is a method's place in the direction, overall its place in all of them
-- key: number_id
with

-- Of several metrics of a task the one that papers report first, and of several gold scores their `z_mean`.
scored as (

    select
        *,
        coalesce(list_position(
            ['accuracy_at_1', 'accuracy', 'map', 'f1', 'micro_f1', 'pearson', 'silhouette_cosine'], metric
        ), 99) as metric_place,
        coalesce(try_cast(settings as json) ->> 'gold' = 'mean', false) as is_other_gold,
        case when reads_as = 'higher is better' then value else -value end as goodness
    from main.leaderboard
    where rank is not null and hubness = 'none'

),

problems as (

    select problem_id
    from scored
    group by problem_id, task, dataset, encoder, evaluated_on, metric, settings
    qualify row_number() over (
        partition by task, dataset, encoder, evaluated_on
        order by
            min(metric_place) asc, metric asc, min(is_other_gold) asc,
            count(distinct method) desc, settings asc
    ) = 1

),

-- Of several training sets of a method the one that knows most of the evaluated languages, then the smallest.
entries as (

    select scored.*
    from scored
    inner join problems using (problem_id)
    inner join parts.trained_sets as named using (trained_on)
    qualify row_number() over (
        partition by scored.problem_id, scored.method
        order by
            len(list_intersect(
                named.languages, regexp_extract_all(scored.evaluated_on, '[a-z]+(-[A-Z]\w*)?')
            )) desc,
            len(named.pairs) asc,
            scored.trained_on asc
    ) = 1

),

-- A method may lack a direction, so methods are ordered by how far they are from the best of each.
placed as (

    select
        *,
        row_number() over (
            partition by problem_id
            order by goodness desc, method asc
        ) as place,
        goodness - max(goodness) over (partition by problem_id) as lag
    from entries

),

averaged as (

    select
        *,
        round(avg(lag) over (partition by task, dataset, encoder, method), 9) as mean_lag,
        count(*) over (partition by task, dataset, encoder, method) as directions
    from placed

),

-- The methods that have all directions of a method, and more, and are better in these.
betters as (

    select
        mine.task,
        mine.dataset,
        mine.encoder,
        mine.method,
        any_value(theirs.mean_lag) as mean_lag
    from averaged as mine
    inner join averaged as theirs
        on mine.problem_id = theirs.problem_id and mine.directions < theirs.directions
    group by mine.task, mine.dataset, mine.encoder, mine.method, theirs.method
    having count(*) = any_value(mine.directions) and round(sum(theirs.lag - mine.lag), 9) > 0

),

-- A method with few directions is placed below them, also if its own directions are the easy ones.
limits as (

    select
        task,
        dataset,
        encoder,
        method,
        min(mean_lag) as mean_lag
    from betters
    group by task, dataset, encoder, method

),

ordered as (

    select
        averaged.* exclude (rank),
        averaged.place as rank,
        dense_rank() over (
            partition by averaged.task, averaged.dataset, averaged.encoder
            order by
                least(averaged.mean_lag, coalesce(limits.mean_lag, averaged.mean_lag)) desc,
                averaged.directions desc,
                averaged.method asc
        ) as overall
    from averaged
    left join limits using (task, dataset, encoder, method)

)

select
    task,
    dataset,
    encoder,
    method,
    evaluated_on,
    value,
    ci_low,
    ci_high,
    n,
    seeds,
    seed_std,
    converged,
    rank,
    overall,
    trained_on,
    embedding,
    metric,
    reads_as,
    as_of,
    refresh,
    is_stale,
    settings,
    number_id,
    problem_id
from ordered
order by task, dataset, encoder, overall, evaluated_on

-- grain: one cell as measured with one data set and encoder and, if methods are rows, with one method
-- reads: parts.table_cells, parts.cell_parts, parts.measured_figures
-- units: measured is null unless all parts were measured; measured_mean is over those that were
-- key: cell_id, dataset, encoder, row_method, own_embedding, training
with

parts as (

    select
        cells.*,
        cell_parts.side,
        cell_parts.part_method,
        cell_parts.place,
        cell_parts.trained_pair as part_pair
    from parts.cell_parts
    inner join parts.table_cells as cells using (cell_id)

),

figures as (

    select
        *,
        case when len(pairs) > 1 then trained_on else 'each pair' end as training
    from parts.measured_figures

),

-- Figures of the paper's methods, trained as in the paper's rows.
printed as (

    select
        parts.cell_id,
        parts.side,
        parts.place,
        parts.part_pair,
        figures.figure_id,
        parts.trained_on = figures.trained_on as is_alike
    from parts
    inner join figures
        on
            parts.task = figures.task
            and parts.base_metric = figures.metric
            and parts.part_method = figures.base_method
            and parts.embedding = figures.embedding
            and parts.place = figures.place
            and parts.transfer = figures.transfer
    where
        coalesce(figures.trained_on in ('', parts.part_pair), true)
        and coalesce(figures.examples = parts.examples, parts.examples is null)
        and coalesce(figures.negatives = parts.negatives, parts.negatives is null)
        and (
            parts.paper <> 'emu'
            or figures.trained_on = ''
            or figures.labelled_languages
            = array_to_string(list_sort(string_split(parts.trained_on, '+')), '+')
        )

),

-- Figures of all other methods on the same data.
others as (

    select
        parts.cell_id,
        parts.side,
        parts.place,
        parts.part_pair,
        figures.figure_id,
        false as is_alike
    from parts
    inner join figures
        on
            parts.task = figures.task
            and parts.base_metric = figures.metric
            and parts.place = figures.place
    anti join parts.table_cells as known
        on
            parts.paper = known.paper
            and parts."table" = known."table"
            and figures.base_method = known.base_method
            and figures.embedding = known.embedding
            and (parts.part_pair is null or figures.training = 'each pair')
    where
        parts.is_open
        and coalesce(figures.examples = parts.examples, parts.examples is null)
        and coalesce(figures.trained_on = '' or list_contains(figures.pairs, parts.part_pair), true)

),

found as (

    select * from printed
    union all
    select * from others

),

candidates as (

    select
        found.*,
        cells.statistic,
        cells.base_method,
        figures.dataset,
        figures.encoder,
        figures.trained_on,
        figures.pairs,
        figures.value,
        figures.std,
        figures.ci_low,
        figures.ci_high,
        figures.settings,
        figures.method as own_method,
        figures.embedding,
        case when cells.rows_are_methods and found.side = 'value' then figures.method end as row_method,
        case when cells.is_open then figures.embedding end as own_embedding,
        case when cells.paper = 'fmda' and cells.rows_are_methods then figures.training end as training,
        figures.trained_on = ''
        or list_contains(figures.pairs, found.place)
        or list_contains(figures.pairs, regexp_replace(found.place, '^(\w+)-(\w+)$', '\2-\1'))
        or list_contains(figures.languages, found.place) as is_seen
    from found
    inner join parts.table_cells as cells using (cell_id)
    inner join figures using (figure_id)

),

-- Of several figures for a cell: first those of the same method, then those trained as in the paper, then
-- those that have seen the evaluated languages, then the largest mixture, then by name; never by time.
best as (

    select *
    from candidates
    qualify row_number() over (
        partition by
            cell_id, side, place, part_pair, dataset, encoder, row_method, own_embedding, training
        order by
            own_method = base_method desc, is_alike desc, is_seen desc, len(pairs) desc,
            own_method asc, trained_on asc, embedding asc, settings asc
    ) = 1

),

sides as (

    select
        cell_id,
        side,
        statistic,
        dataset,
        encoder,
        row_method,
        own_embedding,
        training,
        -- sorted, because the rounding of a sum depends on the order
        list_avg(list_sort(list(case when statistic = 'std' then std else value end))) as measured_mean,
        count(case when statistic = 'std' then std else value end) as n_parts,
        string_agg(distinct nullif(trained_on, ''), ', ' order by nullif(trained_on, '')) as trained_on,
        any_value(ci_low order by place, part_pair) as ci_low,
        any_value(ci_high order by place, part_pair) as ci_high,
        any_value(settings order by place, part_pair) as settings,
        bool_and(is_seen) as is_seen
    from best
    group by all

),

needed as (

    select
        cell_id,
        count_if(side = 'value')::bigint as of_parts,
        count_if(side = 'baseline')::bigint as of_baseline
    from parts.cell_parts
    group by cell_id

)

select
    sides.cell_id,
    sides.dataset,
    sides.encoder,
    sides.row_method,
    sides.own_embedding,
    sides.training,
    sides.trained_on,
    sides.measured_mean,
    sides.n_parts,
    needed.of_parts,
    sides.settings,
    sides.is_seen,
    case when needed.of_parts = 1 and sides.statistic = 'mean' then sides.ci_low end as ci_low,
    case when needed.of_parts = 1 and sides.statistic = 'mean' then sides.ci_high end as ci_high,
    case
        when sides.n_parts < needed.of_parts or coalesce(baselines.n_parts, 0) < needed.of_baseline then null
        when sides.statistic = 'relative_change' then sides.measured_mean / baselines.measured_mean - 1
        when needed.of_baseline > 0 then sides.measured_mean - baselines.measured_mean
        else sides.measured_mean
    end as measured
from sides
inner join needed using (cell_id)
left join sides as baselines
    on
        sides.cell_id = baselines.cell_id
        and sides.dataset = baselines.dataset
        and sides.encoder = baselines.encoder
        and baselines.side = 'baseline'
where sides.side = 'value' and sides.n_parts > 0

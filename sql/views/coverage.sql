-- grain: one printed table of a paper
-- reads: parts.paper_cells, parts.paper_tables
-- units: counts; cells = measured + published_only + impossible; measured includes comparable
-- key: paper, "table"
with

-- A cell counts as measured if it was measured with at least one data set and encoder.
printed as (

    select
        paper,
        "table",
        cell_id,
        bool_or(status = 'measured') as is_measured,
        bool_or(status = 'impossible') as is_impossible,
        bool_or(comparable) as is_comparable
    from parts.paper_cells
    where cell_id is not null
    group by paper, "table", cell_id

)

select
    printed.paper,
    printed."table",
    any_value(paper_tables.shows) as shows,
    count(*) as cells,
    count_if(printed.is_measured)::bigint as measured,
    count_if(not printed.is_measured and not printed.is_impossible)::bigint as published_only,
    count_if(not printed.is_measured and printed.is_impossible)::bigint as impossible,
    count_if(printed.is_comparable)::bigint as comparable
from printed
inner join parts.paper_tables using (paper, "table")
group by printed.paper, printed."table"
order by printed.paper, try_cast(regexp_extract(printed."table", '^T(\d+)', 1) as int), printed."table"

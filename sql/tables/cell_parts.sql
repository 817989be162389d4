-- grain: one figure that a cell is computed from: itself, a part of an average, or the baseline of a change
-- reads: main.table_cells, main.averaged_over
-- units: place is evaluated_on; trained_pair is null if any training set fits; side is value or baseline
with

named as (

    select
        cells.*,
        named_sets.members_are,
        coalesce(named_sets.members, if(
            cells.evaluated_on = 'average',
            split_part(cells.average_over, ';', 1),
            split_part(cells.evaluated_on, '+', 1)
        )) as set_members
    from main.table_cells as cells
    left join main.averaged_over as named_sets
        on
            starts_with(cells.average_over, named_sets.set_name)
            and cells.encoder = coalesce(named_sets.encoder, cells.encoder)

),

members as (

    select
        *,
        unnest(string_split(set_members, ', ')) as member,
        evaluated_on <> 'xx-en' as is_forward,
        evaluated_on = 'xx-en' or contains(coalesce(average_over, ''), 'both directions') as is_backward
    from named

),

directed as (

    select
        *,
        if(members_are = 'languages', 'en-' || member, member) as place
    from members
    where is_forward
    union all
    select
        *,
        if(members_are = 'languages', member, split_part(member, '-', 2)) || '-en' as place
    from members
    where is_backward

),

paired as (

    select
        * exclude (trained_pair),
        unnest(case
            when trained_pair = 'average' then ['en-de', 'en-es', 'en-ja']
            when contains(trained_pair, '+') then [null]
            else [trained_pair]
        end) as trained_pair
    from directed

),

sides as (

    select
        *,
        'value' as side,
        if(settings ->> 'component' = 'center loss', 'emu_no_discriminator', base_method) as part_method
    from paired
    union all
    select
        *,
        'baseline' as side,
        case settings ->> 'component'
            when 'language discriminator' then 'emu_no_discriminator'
            when 'center loss' then 'emu_no_discriminator_no_center'
            else settings ->> 'against'
        end as part_method
    from paired
    where statistic in ('relative_change', 'drop', 'difference')

)

select
    cell_id,
    side,
    part_method,
    trained_pair,
    -- the paper prints the code of three letters
    if(place = 'yor', 'yo', place) as place
from sides

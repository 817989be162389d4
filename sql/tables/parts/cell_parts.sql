-- grain: one figure that a cell is computed from: itself, a part of an average, or the baseline of a change
-- reads: parts.table_cells, parts.averaged_over
-- units: place is evaluated_on; trained_pair is null if any training set fits; side is value or baseline
-- key: cell_id, side, part_method, trained_pair, place
with

named as (

    select
        cells.*,
        named_sets.members_are,
        coalesce(named_sets.members, case
            when cells.evaluated_on = 'average'
                then split_part(cells.average_over, ';', 1)
            else split_part(cells.evaluated_on, '+', 1)
        end) as set_members
    from parts.table_cells as cells
    left join parts.averaged_over as named_sets
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
        case when members_are = 'languages' then 'en-' || member else member end as place
    from members
    where is_forward
    union all
    select
        *,
        case
            when members_are = 'languages'
                then member
            else split_part(member, '-', 2)
        end || '-en' as place
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
        case
            when settings ->> 'component' = 'center loss'
                then 'emu_no_discriminator'
            else base_method
        end as part_method
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
    case when place = 'yor' then 'yo' else place end as place
from sides

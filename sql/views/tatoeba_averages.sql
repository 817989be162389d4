-- grain: one embedding of one method on one set of languages that ORACLE averages over, in one direction
-- reads: parts.measured_figures, parts.averaged_over
-- units: accuracy at 1 is a fraction, the mean over the measured languages; languages is their number
-- key: set_name, direction, dataset, encoder, method, trained_on, embedding
with

lists as (

    select
        set_name,
        unnest(string_split(members, ', ')) as member,
        len(string_split(members, ', ')) as of_languages
    from parts.averaged_over
    where starts_with(set_name, 'Tatoeba')

),

directions as (

    select
        *,
        'en-xx' as direction,
        'en-' || member as place
    from lists
    union all
    select
        *,
        'xx-en' as direction,
        member || '-en' as place
    from lists

)

select
    directions.set_name,
    directions.direction,
    figures.dataset,
    figures.encoder,
    figures.method,
    figures.trained_on,
    figures.embedding,
    directions.of_languages,
    count(distinct directions.member) as languages,
    avg(figures.value) as accuracy_at_1,
    string_agg(distinct directions.member, ' ' order by directions.member) as measured_languages
from directions
inner join parts.measured_figures as figures
    on directions.place = figures.place
where figures.task = 'tatoeba_retrieval' and figures.metric = 'accuracy_at_1'
group by all
order by
    directions.set_name, directions.direction, figures.dataset, figures.encoder, figures.method

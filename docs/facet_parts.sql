-- `facet` with one part or setting changed, on dev, one row an encoder and method: translations that the
-- meaning retrieves in both directions, templates retrieved in both languages, and how often the residual
-- finds the template.
-- noqa: disable=RF05
with

figures as (

    select
        encoder,
        method,
        n,
        seeds,
        value,
        case
            when task = 'crosslingual_retrieval' and evaluated_on = trained_on then 'there'
            when task = 'crosslingual_retrieval' then 'back'
            when evaluated_on = split_part(trained_on, '-', 1) then embedding || ' 1'
            else embedding || ' 2'
        end as shown_as,
        format('{:.3f} [{:.3f}, {:.3f}]', value, ci_low, ci_high) as cell
    from leaderboard
    where
        trained_on = 'en-de'
        and dataset = 'massive'
        and hubness = 'none'
        and metric = 'accuracy_at_1'
        and (
            (task = 'crosslingual_retrieval' and embedding = 'meaning')
            or (task = 'template_retrieval' and embedding in ('template', 'residual'))
        )

)

select
    encoder,
    method,
    max(cell) filter (shown_as = 'there') as "meaning, en-de",
    max(cell) filter (shown_as = 'back') as "de-en",
    max(cell) filter (shown_as = 'template 1') as "template, en",
    max(cell) filter (shown_as = 'template 2') as "template, de",
    max(cell) filter (shown_as = 'residual 1') as "residual finds it, en ↓",
    max(cell) filter (shown_as = 'residual 2') as "residual finds it, de ↓",
    min(n) || '-' || max(n) as n,
    max(seeds)::varchar as seeds
from figures
group by encoder, method
order by encoder, avg(value) filter (shown_as in ('there', 'back')) desc

-- `facet`, its parts and what it grew from, one row an encoder, training pair and method: translations that
-- the meaning retrieves in both directions, templates retrieved in both languages, how often the residual
-- finds the template, and how often a linear probe tells the language from the meaning (0.5 is chance).
-- noqa: disable=RF05
with

figures as (

    select
        encoder,
        trained_on,
        method,
        n,
        seeds,
        converged,
        case
            when task = 'crosslingual_retrieval' and evaluated_on = trained_on then 'there'
            when task = 'crosslingual_retrieval' then 'back'
            when task = 'language_leakage' then 'probe'
            when evaluated_on = split_part(trained_on, '-', 1) then embedding || ' 1'
            else embedding || ' 2'
        end as shown_as,
        format('{:.3f} [{:.3f}, {:.3f}]', value, ci_low, ci_high) as cell
    from leaderboard
    where
        dataset in ('massive', 'sample')
        and hubness = 'none'
        and metric in ('accuracy_at_1', 'accuracy')
        and (method like 'facet%' or method = 'lexicon')
        and trained_on in ('en-de', 'en-es', 'en-ja')
        and (
            (
                task = 'crosslingual_retrieval'
                and embedding = 'meaning'
                and evaluated_on in (
                    trained_on, split_part(trained_on, '-', 2) || '-' || split_part(trained_on, '-', 1)
                )
            )
            or (
                task = 'template_retrieval'
                and embedding in ('template', 'residual')
                and evaluated_on in (split_part(trained_on, '-', 1), split_part(trained_on, '-', 2))
            )
            or (task = 'language_leakage' and embedding = 'meaning' and evaluated_on = trained_on)
        )

)

select
    figures.encoder,
    figures.trained_on,
    figures.method || case when bool_or(not figures.converged) then ' †' else '' end as method,  -- noqa: RF04
    max(figures.cell) filter (figures.shown_as = 'there') as "meaning, there",
    max(figures.cell) filter (figures.shown_as = 'back') as "and back",
    max(figures.cell) filter (figures.shown_as = 'template 1') as "template, first language",
    max(figures.cell) filter (figures.shown_as = 'template 2') as "second language",
    max(figures.cell) filter (figures.shown_as = 'residual 1') as "residual finds it, first language ↓",
    max(figures.cell) filter (figures.shown_as = 'residual 2') as "second language ↓",
    max(figures.cell) filter (figures.shown_as = 'probe') as "linear probe: language ↓",
    case
        when min(figures.n) = max(figures.n) then min(figures.n)::varchar
        else min(figures.n) || '-' || max(figures.n)
    end as n,
    max(figures.seeds)::varchar as seeds
from figures
group by figures.encoder, figures.trained_on, figures.method
order by figures.encoder, figures.trained_on, figures.method != 'facet', figures.method

-- The README's table, one row a method: translations retrieved in both directions, templates retrieved, and
-- the meaning that the language embedding leaks (0 is best; empty for a method without a language embedding).
-- noqa: disable=RF05
with

figures as (

    select
        *,
        case
            when task = 'template_retrieval' then 'template, ' || evaluated_on
            when embedding = 'language' then 'language leak, ' || evaluated_on
            else evaluated_on
        end as shown_as,
        case when value > 0 and value < 0.001 then '{:.4f}' else '{:.3f}' end as form
    from leaderboard
    where
        dataset in ('massive', 'sample')
        and metric = 'accuracy_at_1'
        and trained_on in ('', 'en-de')
        and method in ('raw', 'dream', 'dream_oracle', 'fmda', 'fmda_two_stage', 'fine_tuned', 'facet')
        and (
            (task = 'crosslingual_retrieval' and evaluated_on in ('en-de', 'de-en') and rank is not null)
            or (task = 'crosslingual_retrieval' and evaluated_on = 'en-de' and embedding = 'language')
            or (task = 'template_retrieval' and evaluated_on in ('en', 'de') and rank is not null)
        )

),

cells as (

    select
        *,
        format(form, value)
        || coalesce(' [' || format(form, ci_low) || ', ' || format(form, ci_high) || ']', '') as cell
    from figures

)

select
    method,
    max(cell) filter (shown_as = 'en-de') as "en-de",
    max(cell) filter (shown_as = 'de-en') as "de-en",
    max(cell) filter (shown_as = 'template, en') as "template, en",
    max(cell) filter (shown_as = 'template, de') as "template, de",
    max(cell) filter (shown_as = 'language leak, en-de') as "language leak, en-de",
    case when min(n) = max(n) then min(n)::varchar else min(n) || '-' || max(n) end as n,
    nullif(max(seeds), 0)::varchar as seeds
from cells
group by method
order by
    list_position(
        ['raw', 'dream', 'dream_oracle', 'fmda', 'fmda_two_stage', 'fine_tuned', 'facet'], method
    )

-- The README's table, one row a method and figure: translations retrieved in both directions, templates
-- retrieved, and the meaning that the language embedding leaks (0 is best; a method without a language
-- embedding has no such row).
select
    method,
    value,
    ci_low,
    ci_high,
    n,
    seeds,
    case
        when task = 'template_retrieval' then 'template, ' || evaluated_on
        when embedding = 'language' then 'language leak, ' || evaluated_on
        else evaluated_on
    end as shown_as
from leaderboard
where
    dataset in ('massive', 'sample')
    and metric = 'accuracy_at_1'
    and trained_on in ('', 'en-de')
    and method in ('raw', 'dream', 'dream_oracle', 'fmda', 'fine_tuned', 'facet')
    and (
        (task = 'crosslingual_retrieval' and evaluated_on in ('en-de', 'de-en') and rank is not null)
        or (task = 'crosslingual_retrieval' and evaluated_on = 'en-de' and embedding = 'language')
        or (task = 'template_retrieval' and evaluated_on in ('en', 'de') and rank is not null)
    )
order by
    list_position(['raw', 'dream', 'dream_oracle', 'fmda', 'fine_tuned', 'facet'], method),
    embedding = 'language',
    task,
    evaluated_on != 'en-de',
    evaluated_on != 'en'

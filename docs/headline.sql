-- The README's table: translations found from each side, templates found, and what the language embedding finds of
-- the meaning (0 is best; a method without a language embedding has none). One row a method and figure.
select
    method,
    case
        when task = 'template_retrieval' then 'template, ' || evaluated_on
        when embedding = 'language' then 'language leak, ' || evaluated_on
        else evaluated_on
    end as shown_as,
    value,
    ci_low,
    ci_high,
    n,
    seeds
from leaderboard
where
    dataset in ('massive', 'sample')
    and metric = 'accuracy_at_1'
    and (
        (task = 'crosslingual_retrieval' and rank is not null and evaluated_on in ('en-de', 'de-en'))
        or (task = 'crosslingual_retrieval' and embedding = 'language' and evaluated_on = 'en-de')
        or (task = 'template_retrieval' and rank is not null and evaluated_on in ('en', 'de') and trained_on in ('en-de', ''))
    )
    and method in ('raw', 'dream', 'dream_oracle', 'fmda', 'fine_tuned', 'facet')
order by
    list_position(['raw', 'dream', 'dream_oracle', 'fmda', 'fine_tuned', 'facet'], method),
    embedding = 'language',
    task,
    evaluated_on != 'en-de',
    evaluated_on != 'en'

-- Each part of a method on the task of the other: how often the template, the residual and the meaning (or
-- the only vector) find an utterance of the same template, and one with the same values. Parts are apart if
-- each finds its own and not the other's.
-- noqa: disable=RF05
with

figures as (

    select
        task,
        method,
        case when embedding = 'sentence' then 'meaning' else embedding end as part,
        format('{:.3f}', value) || coalesce(format(' [{:.3f}, {:.3f}]', ci_low, ci_high), '') as cell
    from leaderboard
    where
        encoder = 'minilm_low'
        and task in ('template_retrieval', 'value_retrieval')
        and hubness = 'none'
        and metric = 'accuracy_at_1'
        and evaluated_on = 'en'
        and trained_on in ('', 'en-de')
        and embedding != 'language'

)

select
    method,
    part,
    max(cell) filter (task = 'template_retrieval') as "finds the template",
    max(cell) filter (task = 'value_retrieval') as "finds the values"
from figures
group by method, part
order by method, list_position(['template', 'residual', 'meaning'], part)

-- The README's table, one row a method and encoder: translations retrieved in both directions, templates
-- retrieved, and how often a linear probe tells the language from the meaning (or the sentence vector; 0.5
-- is chance).
-- noqa: disable=RF05
with

figures as (

    select
        *,
        case
            when task = 'template_retrieval' then 'template, ' || evaluated_on
            when task = 'language_leakage' then 'linear probe'
            else evaluated_on
        end as shown_as
    from leaderboard
    where
        dataset in ('massive', 'sample')
        and hubness = 'none'
        and metric in ('accuracy_at_1', 'accuracy')
        and trained_on in ('', 'en-de')
        and encoder not in ('minilm_cls', 'minilm_aligned', 'minilm_in_domain')
        and method in (
            'raw', 'lexicon', 'dream', 'fmda_softmax', 'fmda_two_stage_softmax', 'fine_tuned', 'facet'
        )
        and rank is not null
        and (
            (task = 'crosslingual_retrieval' and evaluated_on in ('en-de', 'de-en'))
            or (task = 'template_retrieval' and evaluated_on in ('en', 'de'))
            or (task = 'language_leakage' and evaluated_on = 'en-de')
        )

),

cells as (

    select
        *,
        format('{:.3f}', value) || coalesce(format(' [{:.3f}, {:.3f}]', ci_low, ci_high), '') as cell
    from figures

)

select
    encoder,
    method || case when bool_or(not converged) then ' †' else '' end as method,  -- noqa: RF04
    max(cell) filter (shown_as = 'en-de') as "en-de",
    max(cell) filter (shown_as = 'de-en') as "de-en",
    max(cell) filter (shown_as = 'template, en') as "template, en",
    max(cell) filter (shown_as = 'template, de') as "template, de",
    max(cell) filter (shown_as = 'linear probe') as "linear probe: language ↓",
    case when min(n) = max(n) then min(n)::varchar else min(n) || '-' || max(n) end as n,
    nullif(max(seeds), 0)::varchar as seeds,
    (
        select max(tries.settings_tried)::varchar
        from settings_tried as tries
        where tries.method = cells.method
    ) as "settings tried"
from cells
group by encoder, method
order by
    list_position(['minilm_multi', 'minilm_multi_upper', 'minilm_mean', 'minilm_low'], encoder),
    list_position(
        ['raw', 'lexicon', 'dream', 'fmda_softmax', 'fmda_two_stage_softmax', 'fine_tuned', 'facet'],
        split_part(method, ' ', 1)
    )

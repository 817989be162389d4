-- The README's tables: one row a method and pair of languages, on the measures that a sceptic would choose.
-- Translation of English; in one pool of both languages, and how often the nearest there is of the own
-- language; templates (the target, or any text of the same template) and similarity in English; how often the
-- language is read off the meaning, by a linear probe, by neighbours and by a network (0.5 is chance).
-- `train bias` corrects translation for hubs from training queries, `csls` from the queries of the test, so
-- that it is transductive.
-- noqa: disable=RF05
with

figures as (

    select
        *,
        case
            when task = 'crosslingual_retrieval' and hubness = 'none' then 'translation'
            when task = 'crosslingual_retrieval' then hubness
            else task
        end as shown_as,
        format('{:.3f}', value) || coalesce(format(' [{:.3f}, {:.3f}]', ci_low, ci_high), '') as cell
    from leaderboard
    where
        rank is not null
        and metric in ('accuracy_at_1', 'accuracy', 'spearman', 'share')
        and (hubness = 'none' or task = 'crosslingual_retrieval')
        and (
            (dataset = 'massive' and evaluated_on[:3] = 'en-')
            or (
                task in ('template_retrieval', 'same_template_retrieval', 'value_retrieval')
                and evaluated_on = 'en'
            )
            or (task = 'sts' and evaluated_on = 'en-en')
            or (task = 'paraphrase_retrieval' and evaluated_on = 'en')
        )

),

pairs as (

    select distinct evaluated_on as pair
    from figures
    where task = 'crosslingual_retrieval'

),

cells as (

    select
        figures.*,
        pairs.pair
    from figures
    inner join pairs
        on
            (
                figures.evaluated_on = pairs.pair
                or (figures.evaluated_on[:3] != 'en-' or figures.task = 'sts')
                and figures.trained_on in ('', pairs.pair)
            )
            -- Sentences of a bitext are paraphrases by their translations in one other language.
            and (
                figures.task != 'paraphrase_retrieval'
                or try_cast(figures.settings as json) ->> 'pair' = pairs.pair
            )

)

select
    pair,
    method || case when bool_or(not converged) then ' †' else '' end as method,  -- noqa: RF04
    max(cell) filter (shown_as = 'translation') as translation,
    max(cell) filter (shown_as = 'train_bias') as "train bias",
    max(cell) filter (shown_as = 'csls (transductive)') as "csls (transductive)",
    max(cell) filter (shown_as = 'mixed_pool_retrieval') as "one pool",
    max(cell) filter (shown_as = 'own_language_neighbours') as "nearest of own language ↓",
    max(cell) filter (shown_as = 'template_retrieval') as "template, en",
    max(cell) filter (shown_as = 'same_template_retrieval') as "any of the template, en",
    max(cell) filter (shown_as = 'value_retrieval') as "values, en",
    max(cell) filter (shown_as = 'sts') as "similarity, en",
    max(cell) filter (shown_as = 'paraphrase_retrieval') as "paraphrases, en",
    max(cell) filter (shown_as = 'language_leakage') as "linear probe: language ↓",
    max(cell) filter (shown_as = 'language_leakage_knn') as "neighbours: language ↓",
    max(cell) filter (shown_as = 'language_leakage_mlp') as "network: language ↓",
    case when min(n) = max(n) then min(n)::varchar else min(n) || '-' || max(n) end as n,
    nullif(max(seeds), 0)::varchar as seeds,
    (
        select max(tries.settings_tried)::varchar
        from settings_tried as tries
        where tries.method = cells.method
    ) as "settings tried"
from cells
group by pair, method
order by pair, max(value) filter (shown_as = 'translation') desc

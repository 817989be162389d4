-- grain: one query and the candidate that one embedding of one method and seed ranks first
-- reads: evaluation.rankings, corpora.utterances, targets.template_pairs, parts.directions
-- units: score is a cosine, -1 to 1; texts are null for tasks whose sentences the warehouse lacks
-- key: task, dataset, encoder, evaluated_on, method, trained_on, embedding, seed, query_id
with

-- `en-de` has queries in en and candidates in de; in `de`, both are in de. Either's texts may not be loaded.
best as (

    select
        rankings.*,
        coalesce(directions.query_language, split_part(rankings.evaluated_on, '-', 1)) as query_language,
        coalesce(directions.pool_language, split_part(rankings.evaluated_on, '-', -1)) as pool_language
    from evaluation.rankings as rankings
    left join parts.directions using (dataset, evaluated_on)
    where rankings.rank = 1

),

-- Texts by their ids in rankings: the id of an utterance, `id#index` of a template target.
texts as (

    select
        corpus,
        language,
        utterance_id as id,
        utterance_id as gold_of,
        'utterance' as kind,
        text as wording,
        intent
    from corpora.utterances
    union all
    select
        corpus,
        language,
        source_utterance_id || '#' || target_index as id,
        source_utterance_id as gold_of,
        'target' as kind,
        target_text as wording,
        null as intent
    from targets.template_pairs

),

golds as (

    select
        corpus,
        language,
        kind,
        gold_of,
        arg_min(wording, id) as wording
    from texts
    group by all

)

select
    best.task,
    best.dataset,
    best.evaluated_on,
    best.query_id,
    queries.wording as query_text,
    queries.intent as query_intent,
    golds.wording as gold_text,
    best.method,
    best.encoder,
    best.trained_on,
    best.embedding,
    best.seed,
    candidates.wording as top_text,
    best.score,
    best.is_gold
from best
left join texts as queries
    on
        best.dataset = queries.corpus
        and best.query_language = queries.language
        and best.query_id = queries.id
        and queries.kind = 'utterance'
left join texts as candidates
    on
        best.dataset = candidates.corpus
        and best.pool_language = candidates.language
        and best.candidate_id = candidates.id
left join golds
    on
        best.dataset = golds.corpus
        and best.pool_language = golds.language
        and best.query_id = golds.gold_of
        and case when contains(best.task, 'template') then 'target' else 'utterance' end = golds.kind
order by best.task, best.dataset, best.evaluated_on, best.query_id, best.method, best.embedding

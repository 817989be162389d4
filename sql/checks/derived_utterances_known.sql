-- grain: one utterance of a derived table that its corpus lacks
-- reads: targets.template_pairs, targets.masked_utterances, negatives.negative_pool, corpora.utterances
-- units: none
-- severity: warning
-- excludes: corpora and languages without a loaded utterance
with

derived as (

    select
        'negative_pool' as relation,
        corpus,
        language,
        utterance_id
    from negatives.negative_pool
    union all
    select
        'masked_utterances' as relation,
        corpus,
        language,
        utterance_id
    from targets.masked_utterances
    union all
    select distinct
        'template_pairs' as relation,
        corpus,
        language,
        source_utterance_id as utterance_id
    from targets.template_pairs

),

loaded as (

    select distinct
        corpus,
        language
    from corpora.utterances

)

select derived.*
from derived
semi join loaded using (corpus, language)
anti join corpora.utterances using (corpus, language, utterance_id)

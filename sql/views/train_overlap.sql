-- grain: one method, training set and seed with rankings in one direction of crosslingual_retrieval
-- reads: evaluation.rankings, parts.scored_embeddings, parts.templates, parts.directions
-- units: n counts queries; accuracies 0 to 1, null without queries; leads are differences of accuracies
-- key: dataset, encoder, evaluated_on, method, trained_on, embedding, seed
--
-- A query is equal if its text, or that of its translation, is a training text of the corpus and language.
-- It is like one if this holds of the text or of the template.
with

-- The embedding that the leaderboard ranks.
hits as (

    select
        rankings.task,
        rankings.dataset,
        rankings.encoder,
        rankings.evaluated_on,
        rankings.method,
        rankings.trained_on,
        rankings.embedding,
        rankings.seed,
        rankings.query_id,
        rankings.is_gold
    from evaluation.rankings
    inner join parts.scored_embeddings using (task, embedding)
    where rankings.task = 'crosslingual_retrieval' and rankings.rank = 1
    qualify dense_rank() over (
        partition by
            rankings.dataset, rankings.encoder, rankings.evaluated_on, rankings.method, rankings.trained_on
        order by scored_embeddings.preference
    ) = 1

),

trained_texts as (

    select distinct
        corpus,
        language,
        plain_text
    from parts.templates
    where split = 'train'

),

trained_templates as (

    select distinct
        corpus,
        language,
        typed_template
    from parts.templates
    where split = 'train'

),

utterances as (

    select
        templates.corpus,
        templates.language,
        templates.utterance_id,
        trained_texts.plain_text is not null as is_equal,
        trained_texts.plain_text is not null or trained_templates.typed_template is not null as is_like
    from parts.templates as templates
    left join trained_texts using (corpus, language, plain_text)
    left join trained_templates using (corpus, language, typed_template)
    where templates.split <> 'train'

),

measured as (

    select distinct
        dataset,
        evaluated_on,
        directions.query_language,
        directions.pool_language
    from hits
    inner join parts.directions using (dataset, evaluated_on)

),

queries as (

    select
        measured.dataset,
        measured.evaluated_on,
        utterances.utterance_id as query_id,
        bool_or(utterances.is_equal) as is_equal,
        bool_or(utterances.is_like) as is_like
    from measured
    inner join utterances
        on
            measured.dataset = utterances.corpus
            and utterances.language in (measured.query_language, measured.pool_language)
    group by all

),

counts as (

    select
        hits.dataset,
        hits.encoder,
        hits.evaluated_on,
        hits.method,
        hits.trained_on,
        hits.embedding,
        hits.seed,
        count(*) as n_all,
        count_if(queries.is_equal)::bigint as n_equal,
        count_if(queries.is_like)::bigint as n_template,
        avg(hits.is_gold::int) as accuracy_all,
        avg(hits.is_gold::int) filter (where not queries.is_equal) as accuracy_without_equal,
        avg(hits.is_gold::int) filter (where not queries.is_like) as accuracy_without_template
    from hits
    inner join queries using (dataset, evaluated_on, query_id)
    group by all

)

select
    dataset,
    encoder,
    evaluated_on,
    method,
    trained_on,
    embedding,
    seed,
    n_all,
    n_equal,
    n_template,
    accuracy_all,
    accuracy_without_equal,
    accuracy_without_template,
    accuracy_all - max(accuracy_all) over (
        partition by dataset, encoder, evaluated_on
        rows between unbounded preceding and unbounded following exclude current row
    ) as lead_all,
    accuracy_without_equal - max(accuracy_without_equal) over (
        partition by dataset, encoder, evaluated_on
        rows between unbounded preceding and unbounded following exclude current row
    ) as lead_without_equal,
    accuracy_without_template - max(accuracy_without_template) over (
        partition by dataset, encoder, evaluated_on
        rows between unbounded preceding and unbounded following exclude current row
    ) as lead_without_template
from counts
order by dataset asc, encoder asc, evaluated_on asc, accuracy_all desc, method asc, trained_on asc, seed asc

-- grain: the first candidate of one method for one of the ten queries of a task with the most disagreement
-- reads: evaluation.rankings, parts.scored_embeddings, main.case_studies
-- units: place counts queries from 1, drawn from all languages in turn; score is a cosine, -1 to 1
-- key: task, dataset, encoder, evaluated_on, query_id, method
with

entered as (

    select
        rankings.task,
        rankings.dataset,
        rankings.encoder,
        rankings.evaluated_on,
        rankings.query_id,
        rankings.method,
        rankings.trained_on,
        rankings.embedding,
        rankings.candidate_id,
        rankings.is_gold
    from evaluation.rankings
    inner join parts.scored_embeddings using (task, embedding)
    where rankings.rank = 1
    qualify row_number() over (
        partition by
            rankings.task, rankings.dataset, rankings.encoder, rankings.evaluated_on,
            rankings.query_id, rankings.method
        order by scored_embeddings.preference, rankings.trained_on
    ) = 1

),

-- Queries that about half of the methods answer correctly come first, and among them those with most answers.
queries as (

    select
        task,
        dataset,
        encoder,
        evaluated_on,
        query_id,
        least(count_if(is_gold), count_if(not is_gold)) as split,
        count(distinct candidate_id) as answers
    from entered
    group by all
    having split > 0

),

turns as (

    select
        *,
        row_number() over (
            partition by task, dataset, encoder, evaluated_on
            order by split desc, answers desc, query_id asc
        ) as turn
    from queries

),

chosen as (

    select
        *,
        row_number() over (partition by task, dataset, encoder order by turn, evaluated_on) as place
    from turns
    qualify place <= 10

)

select
    chosen.task,
    chosen.dataset,
    chosen.encoder,
    chosen.place,
    chosen.evaluated_on,
    chosen.query_id,
    cases.query_text,
    cases.gold_text,
    entered.method,
    entered.trained_on,
    entered.embedding,
    cases.top_text,
    cases.score,
    entered.is_gold
from chosen
inner join entered using (task, dataset, encoder, evaluated_on, query_id)
inner join main.case_studies as cases
    using (task, dataset, encoder, evaluated_on, query_id, method, trained_on, embedding)
order by
    chosen.task asc, chosen.dataset asc, chosen.encoder asc, chosen.place asc,
    entered.is_gold desc, cases.score desc, entered.method asc

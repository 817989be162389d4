-- grain: one candidate in the ranking of one query
-- reads: inputs.rankings, a file per method, encoder and trained_on
-- units: rank counts from 1, the best; score is a cosine, -1 to 1
-- key: task, dataset, encoder, evaluated_on, method, trained_on, embedding, seed, query_id, rank
select
    task,
    dataset,
    method,
    encoder,
    trained_on,
    evaluated_on,
    embedding,
    seed,
    query_id,
    rank,
    candidate_id,
    score,
    is_gold
from inputs.rankings

-- grain: one ranking with more gold candidates than its task has
-- reads: evaluation.rankings
-- units: golds counts candidates
-- severity: error
-- excludes: rankings without gold (its rank is not stored), and tasks with many gold candidates
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
    count(*) as golds
from evaluation.rankings
where
    is_gold
    and task in (
        'crosslingual_retrieval',
        'template_retrieval',
        'tatoeba_retrieval',
        'heldout_retrieval',
        'code_switched_retrieval'
    )
group by all
having count(*) > 1

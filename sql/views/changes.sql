-- grain: one number, with its last change
-- reads: history.events
-- units: as history.events; a number that is as its first refresh made it has the event new
-- key: task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
select *
from history.events
qualify
    row_number() over (
        partition by
            task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
        order by refresh desc
    ) = 1
order by
    refresh desc, coalesce(stands, false) desc, abs(difference) desc nulls last,
    task asc, dataset asc, method asc, encoder asc, trained_on asc, evaluated_on asc,
    embedding asc, metric asc, seed asc nulls first, problem asc

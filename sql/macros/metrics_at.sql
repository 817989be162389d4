-- grain: one number as it was after a refresh
-- reads: history.metrics
-- units: as main.metrics; since_refresh is the refresh that recorded the number
-- parameters: at_refresh
select
    * exclude (refresh, event),
    refresh as since_refresh
from history.metrics
where refresh <= at_refresh
qualify
    event != 'ended'
    and row_number() over (
        partition by
            task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
        order by refresh desc
    ) = 1

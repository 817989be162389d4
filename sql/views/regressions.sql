-- grain: one number that ranks methods and that the last refresh has made worse, by a paired test
-- reads: history.events, history.metrics
-- units: as history.events; where there is no test, the intervals before and after do not overlap
-- key: number_id
select
    refresh,
    method,
    encoder,
    task,
    dataset,
    trained_on,
    evaluated_on,
    embedding,
    metric,
    value_before as before,
    value as after,
    difference,
    difference_low,
    difference_high,
    p_value,
    p_holm,
    test,
    reads_as,
    why,
    settings,
    number_id,
    problem_id,
    recorded_at
from history.events
where
    refresh = (select max(metrics.refresh) from history.metrics as metrics)
    and event = 'changed'
    and is_ranked
    and change = 'worse'
    and coalesce(p_holm < 0.05, stands)
order by
    p_value asc nulls last, abs(difference) desc, task asc, dataset asc, method asc, encoder asc,
    trained_on asc, evaluated_on asc, embedding asc, metric asc, settings asc

-- grain: one number that ranks methods and that the last refresh has made worse, beyond both intervals
-- reads: main.regressions
-- units: as main.regressions
-- severity: warning
-- excludes: numbers without intervals
select
    refresh,
    method,
    encoder,
    task,
    dataset,
    trained_on,
    evaluated_on,
    metric,
    why,
    round(before, 4) as before,
    round(after, 4) as after
from main.regressions

-- grain: one number that ranks methods and that the last refresh has made worse, by a paired test
-- reads: main.regressions
-- units: as main.regressions
-- severity: warning
-- excludes: numbers without a test or intervals
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
    test,
    round(p_holm, 4) as p_holm,
    round(before, 4) as before,
    round(after, 4) as after
from main.regressions

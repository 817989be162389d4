-- grain: one row of main.metrics whose interval is half there, or does not hold its value
-- reads: main.metrics
-- units: as main.metrics
-- severity: error
-- excludes: rows without interval: not every metric has one; 1e-9 is left to rounding
select *
from main.metrics
where
    (ci_low is null) <> (ci_high is null)
    or not coalesce(value between ci_low - 1e-9 and ci_high + 1e-9, true)

-- grain: one row of evaluation.measurements whose interval lacks one end, or does not contain the value
-- reads: evaluation.measurements
-- units: as evaluation.measurements
-- severity: error
-- excludes: rows without interval, because not every metric has one; 1e-9 allows for rounding
select *
from evaluation.measurements
where
    (ci_low is null) <> (ci_high is null)
    or not coalesce(value between ci_low - 1e-9 and ci_high + 1e-9, true)

-- grain: one row of evaluation.measurements whose value is out of the range of its metric
-- reads: evaluation.measurements, parts.readings
-- units: as evaluation.measurements
-- severity: error
-- excludes: metrics without a range (seconds, counts, losses), whose values need only be numbers
select measurements.*
from evaluation.measurements
inner join parts.readings using (task, embedding, metric, settings)
where
    not coalesce(isfinite(measurements.value), false)
    or not coalesce(measurements.value between readings.lowest and readings.highest, true)

-- grain: one row of evaluation.measurements whose trained_on contradicts its method
-- reads: evaluation.measurements, parts.methods
-- units: none
-- severity: error
-- excludes: variants named by users
select measurements.*
from evaluation.measurements
inner join parts.methods using (method)
where methods.is_trained = (measurements.trained_on = '')

-- grain: one row of main.metrics whose trained_on contradicts its method
-- reads: main.metrics, parts.methods
-- units: none
-- severity: error
-- excludes: variants named by users
select metrics.*
from main.metrics
inner join parts.methods using (method)
where methods.is_trained = (metrics.trained_on = '')

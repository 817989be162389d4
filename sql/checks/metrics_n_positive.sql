-- grain: one row of evaluation.measurements that was measured on no item
-- reads: evaluation.measurements
-- units: n counts items (queries, pairs, tokens)
-- severity: error
-- excludes: nothing; a measurement needs an item
select *
from evaluation.measurements
where n <= 0

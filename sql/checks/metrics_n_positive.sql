-- grain: one row of main.metrics that was measured on no item
-- reads: main.metrics
-- units: n counts items (queries, pairs, tokens)
-- severity: error
-- excludes: nothing; a measurement needs an item
select *
from main.metrics
where n <= 0

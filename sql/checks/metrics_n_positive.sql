-- grain: one row of main.metrics made from no item
-- reads: main.metrics
-- units: n counts items (queries, pairs, tokens)
-- severity: error
-- excludes: nothing; a figure of no item is no measurement
select *
from main.metrics
where n <= 0

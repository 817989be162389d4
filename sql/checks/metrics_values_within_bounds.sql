-- grain: one row of main.metrics whose value is out of the range of its metric
-- reads: main.metrics
-- units: as main.metrics
-- severity: error
-- excludes: metrics without a range (seconds, counts, losses), whose values need only be numbers
select *
from main.metrics
where
    not coalesce(isfinite(value), false)
    or (
        regexp_matches(metric, '^(accuracy|recall|precision|map$|mrr|ndcg)|(^|_)f1$')
        and value not between 0 and 1
    )
    or (regexp_matches(metric, '^(pearson|spearman|silhouette)') and value not between -1 and 1)

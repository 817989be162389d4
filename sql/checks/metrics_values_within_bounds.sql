-- grain: one row of evaluation.measurements whose value is out of the range of its metric
-- reads: evaluation.measurements
-- units: as evaluation.measurements
-- severity: error
-- excludes: metrics without a range (seconds, counts, losses), whose values need only be numbers
select *
from evaluation.measurements
where
    not coalesce(isfinite(value), false)
    or (
        regexp_matches(metric, '^(accuracy|recall|precision|map$|mrr|ndcg)|(^|_)f1$')
        and value not between 0 and 1
    )
    or (regexp_matches(metric, '^(pearson|spearman|silhouette)') and value not between -1 and 1)

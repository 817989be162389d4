-- grain: one published cell that lacks a name or the reason of a missing value, or has an impossible value
-- reads: main.published_metrics, parts.scored_embeddings
-- units: as main.published_metrics
-- severity: error
-- excludes: encoder and trained_on, which some systems lack; differences; tasks, if no task is known
select *
from main.published_metrics
where
    '' in (task, dataset, method, evaluated_on, embedding, metric, paper, "table")
    or (
        task not in (select scored_embeddings.task from parts.scored_embeddings)
        and exists (select scored_embeddings.task from parts.scored_embeddings)
    )
    or (value is null and note = '')
    or (metric in ('accuracy_at_1', 'map', 'micro_f1', 'micro_f1_std') and value not between 0 and 1)
    or (metric in ('pearson', 'spearman', 'silhouette') and value not between -1 and 1)

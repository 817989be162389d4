"""Each check returns the offending rows and no others."""

from datetime import UTC, datetime

import pytest

from disent_core.errors import TableError

RELATIONS = (
    "metrics", "published_metrics", "evaluation.rankings", "corpora.utterances", "targets.template_pairs",
    "targets.masked_utterances", "negatives.negative_pool", "parts.methods", "parts.scored_embeddings",
    "configured_methods", "seed_variance", "parts.readings",
)  # fmt: skip
FINE = [{"seed": 0}, {"seed": 1, "value": 0.55}, {}]

OFFENDING = {
    "metrics_grain": {"metrics": [{}, {}]},
    "metrics_values_within_bounds": {"metrics": [{"value": 1.5, "ci_high": 2.0}]},
    "metrics_values_inside_interval": {"metrics": [{"value": 0.9}]},
    "metrics_n_positive": {"metrics": [{"n": 0}]},
    "seeds_have_aggregate": {"metrics": [{"seed": 0}]},
    "metrics_names_known": {"metrics": [{"embedding": "meanning"}]},
    "settings_are_json": {"metrics": [{"settings": "k=1"}]},
    "untrained_methods_have_no_pair": {"metrics": [{"method": "raw", "embedding": "sentence"}]},
    "rankings_are_contiguous": {"rankings": [{}, {"rank": 3, "candidate_id": "2", "is_gold": False}]},
    "rankings_have_one_gold": {"rankings": [{}, {"rank": 2, "candidate_id": "2"}]},
    "utterances_grain": {"utterances": [{}, {}]},
}
LATE = {
    **dict.fromkeys(("encoder", "method", "partition"), None), **{"asset": "a", "stage": "evaluation", "why": "a bug"},
    **dict.fromkeys(("since", "recorded_at"), datetime(2026, 1, 1, tzinfo=UTC)),
    **{"method": "dream", "encoder": "minilm", "partition": "en-de", "state": "failed", "waits": False},
}  # fmt: skip
SUSPICIOUS = {
    "metrics_are_current": {"metrics": [{}, {"n": 99, "metric": "map"}], "asset_state": [LATE]},
    "evaluated_languages_known": {"metrics": [{"evaluated_on": "en-fr"}], "utterances": [{}]},
    "derived_utterances_known": {"template_pairs": [{"source_utterance_id": "9"}], "utterances": [{}]},
}


@pytest.mark.parametrize("check", OFFENDING)
def test_a_check_of_severity_error_keeps_the_warehouse_out(warehouse, check):
    with pytest.raises(TableError, match=rf"1 of \d+ checks.*{check}: "):
        warehouse.build(**OFFENDING[check])
    assert not warehouse.path.exists()


@pytest.mark.parametrize("check", SUSPICIOUS)
def test_a_check_of_severity_warning_is_reported(warehouse, check):
    reported = [result for result in warehouse.build(**SUSPICIOUS[check]).checks if result.offending]
    assert [(result.name, result.severity, result.offending, len(result.sample)) for result in reported] == [
        (check, "warning", 1, 1)
    ]


def test_no_check_objects_to_rows_in_order(warehouse):
    ranking = [{}, {"rank": 2, "candidate_id": "2", "score": 0.9, "is_gold": False}]
    report = warehouse.build(
        metrics=[*FINE, {"method": "raw", "trained_on": "", "embedding": "sentence"}, {"method": "my_dream"}],
        rankings=[*ranking, *({**row, "seed": 1} for row in ranking)],
        utterances=[{}, {"language": "de"}],
        template_pairs=[{}, {"target_index": 1}],
    )
    assert [str(result) for result in report.checks if result.offending] == []


@pytest.mark.parametrize(
    ("metric", "value"),
    [("accuracy_at_1", -0.1), ("map", 1.1), ("micro_f1", 1.1), ("pearson", 1.1), ("seconds", float("nan"))],
)
def test_values_out_of_the_bounds_of_their_metric_are_offending(warehouse, metric, value):
    with pytest.raises(TableError, match="metrics_values_within_bounds"):
        warehouse.build(metrics=[{"metric": metric, "value": value, "ci_low": None, "ci_high": None}])


def test_values_within_the_bounds_of_their_metric_pass(warehouse):
    values = {"spearman": -0.4, "silhouette": -0.02, "seconds": 12.0}
    none = {"ci_low": None, "ci_high": None}
    warehouse.build(metrics=[{"metric": metric, "value": value, **none} for metric, value in values.items()])


@pytest.mark.parametrize(
    ("check", "rows"),
    [
        ("metrics_values_inside_interval", {"metrics": [{"ci_high": None}]}),
        ("rankings_are_contiguous", {"rankings": [{"score": 0.5}, {"rank": 2, "score": 0.6, "is_gold": False}]}),
        ("untrained_methods_have_no_pair", {"metrics": [{"method": "fmda", "trained_on": ""}]}),
    ],
    ids=["half an interval", "scores that rise down a ranking", "a trained method without a training pair"],
)
def test_other_offending_rows_are_found(warehouse, check, rows):
    with pytest.raises(TableError, match=check):
        warehouse.build(**rows)


def test_a_published_cell_without_value_or_reason_is_offending(warehouse, sql_copy):
    header = (sql_copy / "published/figures/fmda.csv").read_text().splitlines()[0]
    row = "sts,sts2017,dream,,,de,meaning,pearson,,,{},p,T1,"
    (sql_copy / "published/figures/bad.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(TableError, match="published_complete"):
        warehouse.build(sql_copy)


def test_a_published_cell_that_is_there_twice_is_offending(warehouse, sql_copy):
    (sql_copy / "published/figures/again.csv").write_text((sql_copy / "published/figures/fmda.csv").read_text())
    with pytest.raises(TableError, match="published_grain: 143 rows"):
        warehouse.build(sql_copy)

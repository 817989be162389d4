"""Each check returns the offending rows and no others."""

import re
from collections import Counter
from datetime import UTC, datetime
from math import nan

import pytest

from disent_core.errors import TableError

RELATIONS = (
    "metrics", "published_metrics", "evaluation.rankings", "corpora.utterances", "targets.template_pairs",
    "targets.masked_utterances", "negatives.negative_pool", "parts.methods", "parts.scored_embeddings",
    "configured_methods", "seed_variance", "parts.readings", "parts.directions",
)  # fmt: skip
FINE = [{"seed": 0}, {"seed": 1, "value": 0.55}, {}]

CELL = {"ci_low": None, "ci_high": None}
OFFENDING = [  # a check that returns a row, the table, and rows of a direction of their own
    ("metrics_grain", "metrics", [{}, {}]),
    ("metrics_values_within_bounds", "metrics", [{"value": 1.5, "ci_high": 2.0}]),
    *(("metrics_values_within_bounds", "metrics", [{"metric": metric, "value": value, **CELL}]) for metric, value in
      {"accuracy_at_1": -0.1, "map": 1.1, "micro_f1": 1.1, "pearson": 1.1, "seconds": nan}.items()),
    ("metrics_values_inside_interval", "metrics", [{"value": 0.9}]),
    ("metrics_values_inside_interval", "metrics", [{"ci_high": None}]),
    ("metrics_n_positive", "metrics", [{"n": 0}]),
    ("seeds_have_aggregate", "metrics", [{"seed": 0}]),
    ("metrics_names_known", "metrics", [{"embedding": "meanning"}]),
    ("settings_are_json", "metrics", [{"settings": "k=1"}]),
    ("untrained_methods_have_no_pair", "metrics", [{"method": "raw", "embedding": "sentence"}]),
    ("untrained_methods_have_no_pair", "metrics", [{"method": "fmda", "trained_on": ""}]),
    ("rankings_are_contiguous", "rankings", [{}, {"rank": 3, "candidate_id": "2", "is_gold": False}]),
    ("rankings_are_contiguous", "rankings", [{"score": 0.5}, {"rank": 2, "score": 0.6, "is_gold": False}]),
    ("rankings_have_one_gold", "rankings", [{}, {"rank": 2, "candidate_id": "2"}]),
    ("utterances_grain", "utterances", [{}, {}]),
]  # fmt: skip
LATE = {
    **dict.fromkeys(("encoder", "method", "partition"), None), **{"asset": "a", "stage": "evaluation", "why": "a bug"},
    **dict.fromkeys(("since", "recorded_at"), datetime(2026, 1, 1, tzinfo=UTC)),
    **{"method": "dream", "encoder": "minilm", "partition": "en-de", "state": "failed", "waits": False},
}  # fmt: skip
SUSPICIOUS = {
    "metrics": [{}, {"n": 99, "metric": "map"}, {"evaluated_on": "en-fr", "trained_on": "en-fr"}],
    "asset_state": [LATE],
    "template_pairs": [{"source_utterance_id": "9"}],
    "utterances": [{}, {"language": "de"}],
}


def test_error_checks_count_offending_rows_and_prevent_publication(warehouse):
    tables, expected = {}, Counter()
    for place, (check, table, rows) in enumerate(OFFENDING):
        apart = {} if table == "utterances" else {"evaluated_on": f"en-{place}"}
        tables[table] = [*tables.get(table, []), *(row | apart for row in rows)]
        expected[check] += 1
    with pytest.raises(TableError, match=rf"{len(expected)} of \d+ checks") as failed:
        warehouse.build(**tables)
    assert {name: int(n) for name, n in re.findall(r"(\w+): (\d+) rows", str(failed.value))} == expected
    assert not warehouse.path.exists()


def test_a_check_of_severity_warning_is_reported(warehouse):
    reported = [result for result in warehouse.build(**SUSPICIOUS).checks if result.offending]
    names = ("derived_utterances_known", "evaluated_languages_known", "metrics_are_current")
    assert sorted((result.name, result.severity, result.offending, len(result.sample)) for result in reported) == [
        (name, "warning", 1, 1) for name in names
    ]


def test_valid_rows_pass_every_check(warehouse):
    values = {"spearman": -0.4, "silhouette": -0.02, "seconds": 12.0}  # within the bounds of their metrics
    signed = [{"metric": metric, "value": value, **CELL} for metric, value in values.items()]
    ranking = [{}, {"rank": 2, "candidate_id": "2", "score": 0.9, "is_gold": False}]
    report = warehouse.build(
        metrics=[*FINE, {"method": "raw", "trained_on": "", "embedding": "sentence"}, {"method": "my_dream"}, *signed],
        rankings=[*ranking, *({**row, "seed": 1} for row in ranking)],
        utterances=[{}, {"language": "de"}],
        template_pairs=[{}, {"target_index": 1}],
    )
    assert [str(result) for result in report.checks if result.offending] == []


def test_incomplete_and_duplicate_published_cells_fail_the_checks(warehouse, sql_copy):
    figures = (sql_copy / "published/figures/fmda.csv").read_text()
    bad = "sts,sts2017,dream,,,de,meaning,pearson,,,{},p,T1,"
    for name, text in {"again": figures, "bad": f"{figures.splitlines()[0]}\n{bad}\n"}.items():
        (sql_copy / f"published/figures/{name}.csv").write_text(text)
    with pytest.raises(TableError, match=r"published_complete: 1 rows.*published_grain: 143 rows"):
        warehouse.build(sql_copy)

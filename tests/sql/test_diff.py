"""`disent diff` says what the last refreshes have changed."""

import csv
import io
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from disent_assets.cli import main
from disent_core.storage.tables import SCHEMAS

RELATIONS = ("changes", "runs", "history.events", "regressions", "best_at", "parts.scored_embeddings")
HISTORY = {
    **dict.fromkeys(SCHEMAS["metric_history"].names),
    "task": "crosslingual_retrieval", "dataset": "massive", "method": "dream", "encoder": "minilm",
    "trained_on": "en-de", "evaluated_on": "en-de", "embedding": "meaning", "metric": "accuracy_at_1",
    "n": 100, "problem": "{}", "settings": "{}", "fingerprint": "f", "code": "c", "data": "d", "weights": "w",
    "vectors": "v", "config": "disent.toml", "disent_version": "0.1.0",
}  # fmt: skip


def number(refresh: int, event: str, value: float | None, **other: object) -> dict:
    return {
        **HISTORY,
        **{"refresh": refresh, "event": event, "value": value, "run_id": f"run-of-refresh-{refresh}"},
        **{name: value and value + half for name, half in (("ci_low", -0.05), ("ci_high", 0.05))},
        "recorded_at": datetime(2026, 1, refresh, tzinfo=UTC),
        **other,
    }


FIRST = [
    number(1, "new", value, method=method)
    for method, value in {"dream": 0.2, "fmda": 0.3, "meat": 0.4, "raw": 0.5}.items()
]
SECOND = [
    number(2, "changed", 0.25, method="dream", weights="x"),
    number(2, "changed", 0.6, method="fmda", code="x", weights="x"),
    number(2, "ended", None, method="meat"),
    number(2, "new", 0.9, method="facet"),
    number(2, "confirmed", 0.5, method="raw", data="x"),
]
THIRD = [number(3, "changed", 0.21, method="dream", weights="y")]


@pytest.fixture
def diff(warehouse):
    def ask(rows: list[dict] | None, *arguments: str) -> str:
        """Of these rows, or of those before."""
        if rows is not None:
            warehouse.build(metric_history=rows)
        home = {"DISENT_HOME": str(warehouse.path.parent)}
        return CliRunner().invoke(main, ["diff", *arguments], env=home, catch_exceptions=False).output

    return ask


def test_the_largest_significant_change_comes_first(diff):
    lines = diff([*FIRST, *SECOND]).splitlines()
    assert lines[0].startswith("refresh 2, 2026-01-02 00:00 UTC, run run-of-r against refresh 1")
    rows = [line.split() for line in lines if line.startswith(("fmda", "dream"))]
    assert rows == [
        ["fmda", "0.300", "0.600", "0.300", "apart", "code", "or", "settings,", "trained", "weights"],
        ["dream", "0.200", "0.250", "0.050", "overlap", "trained", "weights"],
    ]
    counts = (
        "Of the means over seeds, 1 changed beyond their 95 % intervals, 1 within them; "
        "1 are new, 1 ended, 1 made again without change."
    )
    assert counts in lines


def test_lower_leakage_is_shown_as_better(diff):
    leak = {"task": "language_leakage", "metric": "accuracy"}
    before = [number(1, "new", 0.9), number(1, "new", 0.9, **leak)]
    lines = diff([*before, number(2, "changed", 0.7), number(2, "changed", 0.6, **leak)]).splitlines()
    rows = [line.split() for line in lines if line.startswith(("cross", "language"))]
    assert [(row[0], row[-1]) for row in rows] == [("language_leakage", "better"), ("crosslingual_retrieval", "worse")]


def test_changes_since_a_date_or_refresh_are_combined(diff):
    diff([*FIRST, *SECOND, *THIRD])
    for since in ("1", "2026-01-02", "run-of-refresh-1", "2026-01-01T12:00+00:00"):
        rows = csv.DictReader(io.StringIO(diff(None, "--since", since, "--format", "csv")))
        by_method = {row["method"]: row for row in rows}
        assert (by_method["dream"]["value_before"], by_method["dream"]["value"]) == ("0.2", "0.21")
        assert {name: row["event"] for name, row in by_method.items()} == {
            "dream": "changed", "fmda": "changed", "meat": "ended", "facet": "new", "raw": "confirmed",
        }  # fmt: skip


def test_numbers_added_and_removed_in_between_are_omitted(diff):
    rows = [*FIRST, number(2, "new", 0.9, method="facet"), number(3, "ended", None, method="facet")]
    assert "facet" not in diff(rows, "--since", "1", "--format", "csv")
    assert "facet" in diff(None, "--format", "csv")


def test_seeds_and_leakage_are_shown_on_request(diff):
    hidden = [
        number(refresh, event, refresh / 10, **other)
        for refresh, event in ((1, "new"), (2, "changed"))
        for other in ({"seed": 7}, {"embedding": "language"})
    ]
    assert "0.100" not in diff([*FIRST, *SECOND, *hidden])
    assert diff(None, "--all").count("0.100") == 4


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (FIRST, (), "There is one refresh so far (refresh 1, 2026-01-01 00:00 UTC, run run-of-r), so there is nothing"),
        ([*FIRST, *SECOND], ("--since", "2026-02-01"), "Nothing has changed since refresh 2, 2026-01-02 00:00 UTC"),
        ([], (), "nothing has been recorded yet. Run disent materialize"),
        (
            FIRST,
            ("--since", "x"),
            "--since 'x' is not a date such as 2026-11-22, a refresh or a run; the refreshes are 1",
        ),
    ],
)
def test_an_empty_diff_is_one_line_with_the_reason(diff, rows, arguments, message):
    output = diff(rows, *arguments)
    assert message in output
    assert len(output.splitlines()) == 1


def test_the_runs_view_and_diff_count_the_same_changes(warehouse, diff):
    seeds = [number(refresh, event, value, seed=7) for refresh, event, value in ((1, "new", 0.1), (2, "changed", 0.9))]
    counted = next(line for line in diff([*FIRST, *SECOND, *seeds]).splitlines() if line.startswith("Of the means"))
    assert warehouse.rows("select standing_count from runs where refresh = 2") == [(1,)]
    assert " 1 changed beyond " in counted


# --- what got worse, and what was ---


def leak(refresh: int, event: str, value: float) -> dict:
    return number(refresh, event, value, task="language_leakage", metric="accuracy")


def test_regressions_are_ranked_numbers_significantly_worse_after_the_last_refresh(warehouse):
    corrected = dict.fromkeys(("settings", "problem"), '{"hubness": "csls"}')
    unranked = {"seed": 7}, {"embedding": "language"}, {"metric": "threshold"}, corrected
    hidden = [number(1, "new", 0.9, **other) for other in unranked]
    hidden += [number(2, "changed", 0.1, **other) for other in unranked]
    warehouse.build(metric_history=[
        number(1, "new", 0.5), number(2, "changed", 0.3, weights="x"),
        number(1, "new", 0.5, method="close"), number(2, "changed", 0.45, method="close"),
        number(1, "new", 0.5, method="better"), number(2, "changed", 0.9, method="better"),
        number(1, "new", 0.5, method="fmda"), number(2, "changed", 0.48, method="fmda", p_holm=0.04, test="mcnemar"),
        number(1, "new", 0.5, method="meat"), number(2, "changed", 0.3, method="meat", p_holm=0.06, test="mcnemar"),
        leak(1, "new", 0.2), leak(2, "changed", 0.4), *hidden,
    ])  # fmt: skip
    rows = warehouse.rows("select task, method, before, after, test, why from regressions order by task, method")
    assert rows == [
        ("crosslingual_retrieval", "dream", 0.5, 0.3, None, "trained weights"),
        ("crosslingual_retrieval", "fmda", 0.5, 0.48, "mcnemar", None),
        ("language_leakage", "dream", 0.2, 0.4, None, None),
    ]
    (check,) = [check for check in warehouse.report.checks if check.name == "no_regressions"]
    assert (check.severity, check.offending) == ("warning", 3)


def test_regressions_of_earlier_refreshes_are_not_repeated(warehouse):
    warehouse.build(metric_history=[number(1, "new", 0.5), number(2, "changed", 0.3), number(3, "changed", 0.3, n=99)])
    assert warehouse.rows("from regressions") == []


def test_changes_have_their_direction_and_ranked_flag(warehouse):
    warehouse.build(metric_history=[
        number(1, "new", 0.5), number(2, "changed", 0.4), leak(1, "new", 0.5), leak(2, "changed", 0.4),
        number(1, "new", 0.5, seed=1),
    ])  # fmt: skip
    rows = warehouse.rows("select task, seed, change, is_ranked from changes order by task, seed nulls first")
    assert rows == [
        ("crosslingual_retrieval", None, "worse", True), ("crosslingual_retrieval", 1, None, False),
        ("language_leakage", None, "better", True),
    ]  # fmt: skip


def test_macros_return_numbers_and_best_methods_as_of_a_refresh(warehouse):
    states = number(1, "new", 0.99, method="fmda", embedding="sentence")  # fmda is ranked by its meaning
    leaks = [leak(1, "new", 0.9), leak(1, "new", 0.2) | {"method": "raw"}]
    warehouse.build(metric_history=[*FIRST, *SECOND, states, *leaks])
    asked = "select method, value, since_refresh from {}({}) where task = 'crosslingual_retrieval' order by method"
    first = [("dream", 0.2, 1), ("fmda", 0.3, 1), ("fmda", 0.99, 1), ("meat", 0.4, 1), ("raw", 0.5, 1)]
    second = [("dream", 0.25, 2), ("facet", 0.9, 2), ("fmda", 0.6, 2), ("fmda", 0.99, 1), ("raw", 0.5, 2)]
    assert warehouse.rows(asked.format("metrics_at", 1) + ", value") == first
    assert warehouse.rows(asked.format("metrics_at", 2) + ", value") == second
    assert [warehouse.rows(asked.format("best_at", n)) for n in (1, 2)] == [[("raw", 0.5, 1)], [("facet", 0.9, 2)]]
    assert warehouse.rows("select method from best_at(2) where task = 'language_leakage'") == [("raw",)]

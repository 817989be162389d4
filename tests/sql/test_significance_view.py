"""The view describes comparisons in words, and names the best method of a problem with those that it beats."""

import pytest

from disent_core.errors import TableError

RELATIONS = ("significance",)
DREAM = {"method_b": "dream", "trained_on_b": "en-de", "embedding_b": "meaning", "value_b": 0.79, "difference": 0.01}
CLOSE = {**DREAM, "p_value": 0.3, "p_holm": 0.3}


def test_a_difference_is_significant_below_five_percent_after_holm(warehouse):
    warehouse.build(comparisons=[{}, CLOSE])
    apart = "facet (meaning, en-de) is above raw (sentence) (0.800 to 0.500, p = 0.002)"
    near = "facet (meaning, en-de) and dream (meaning, en-de) can't be told apart (0.800 and 0.790, p = 0.300)"
    best = ("facet (meaning, en-de)", "raw (sentence)")
    rows = warehouse.rows("select stands, reads_as, best, best_beats from significance order by p_holm")
    assert rows == [(True, apart, *best), (False, near, *best)]


def test_negative_differences_read_as_below_and_small_p_values_as_bounds(warehouse):
    turned = {"value_a": 0.2, "difference": -0.3, "ci_low": -0.4, "ci_high": -0.2, "p_value": 1e-9, "p_holm": 1e-8}
    warehouse.build(comparisons=[turned])
    reads_as = "facet (meaning, en-de) is below raw (sentence) (0.200 to 0.500, p < 0.001)"
    assert warehouse.rows("select reads_as, best from significance") == [(reads_as, "raw (sentence)")]


def test_where_lower_is_better_the_lowest_is_the_best(warehouse):
    leaks = {"task": "language_leakage", "metric": "accuracy"}
    warehouse.build(comparisons=[{**leaks}, {**leaks, **CLOSE}])
    rows = warehouse.rows("select best, best_beats, lower_is_better, reads_as from significance order by p_holm")
    assert [row[:3] for row in rows] == [("raw (sentence)", "facet (meaning, en-de)", True)] * 2
    assert rows[0][3].endswith("(0.800 to 0.500, p = 0.002; lower is better)")


def test_a_comparison_says_which_correction_both_sides_have(warehouse):
    warehouse.build(comparisons=[{"settings": '{"hubness": "csls"}'}])
    ((hubness, reads_as),) = warehouse.rows("select hubness, reads_as from significance")
    assert hubness == "csls (transductive)"
    assert reads_as.endswith("; hubness: csls (transductive))")


@pytest.mark.parametrize("order", [1, -1])
def test_ties_for_the_best_are_broken_by_name(warehouse, order):
    equal = {"value_b": 0.8, "difference": 0.0, "ci_low": -0.1, "ci_high": 0.1, "p_value": 1.0, "p_holm": 1.0}
    rows = [{**DREAM, **equal}, {**equal}]
    warehouse.build(comparisons=rows[::order])
    assert {row["best"] for row in warehouse.ask("select best from significance")} == {"dream (meaning, en-de)"}


def test_the_best_method_is_determined_per_problem(warehouse):
    warehouse.build(
        comparisons=[{"task": "language_identification", "embedding_a": "language", "embedding_b": "language"}]
    )
    assert warehouse.rows("select best from significance") == [("facet (language, en-de)",)]
    warehouse.build(comparisons=[{}, {"evaluated_on": "de-en", "p_holm": 0.2}])
    assert warehouse.rows("select best_beats from significance order by evaluated_on") == [(None,), ("raw (sentence)",)]


def test_inconsistent_and_duplicate_comparisons_fail_the_check(warehouse):
    odd = [{"difference": 0.1}, {"p_holm": 1.5}, {"p_holm": 0.0001}, {"n": 0}, {"ci_low": None}]
    rows = [{**row, "evaluated_on": f"en-{place}"} for place, row in enumerate(odd)]
    with pytest.raises(TableError, match="comparisons_in_order: 7 rows"):
        warehouse.build(comparisons=[*rows, {}, {}])

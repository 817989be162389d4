"""Our method, the best published one and words without an encoder are compared in pairs, with their tests."""

import pytest

RELATIONS = ("opponents",)
WITHOUT = {"facet_states": ("facet", '["words"]')}
BASES = {
    "facet": "facet",
    "lexicon": "lexicon",
    "dream": "dream",
    "strong": "fmda",
    "tuned": "fine_tuned",
    "raw": "raw",
}
NAMES = ("facet", "facet_states", "lexicon", "dream", "strong", "tuned", "raw")
ACCURACIES = dict(zip(NAMES, (0.9, 0.85, 0.8, 0.6, 0.7, 0.95, 0.1), strict=True))
FACET = {"method_a": "facet", "value_a": 0.9}
STRONG = {"method_b": "strong", "trained_on_b": "en-de", "embedding_b": "meaning", "value_b": 0.7, "difference": 0.2}


@pytest.fixture
def opponents(warehouse):
    """Rows of the view on one problem with these values: (side, method, other side, other, p_holm, stands)."""

    def opponents(values, comparisons=(), **problem):
        shared = {"ci_low": None, "ci_high": None, **problem}
        of_raw = {"trained_on": "", "embedding": "sentence"}
        metrics = [
            {"method": name, "value": value, **shared, **(of_raw if name == "raw" else {})}
            for name, value in values.items()
        ]
        configured = [{"method": name, "base_method": base} for name, base in BASES.items()]
        configured += [
            {"method": name, "base_method": base, "settings": f'{{"without": {left_out}}}'}
            for name, (base, left_out) in WITHOUT.items()
        ]
        warehouse.build(metrics=metrics, configured_methods=configured, comparisons=list(comparisons))
        columns = "side, method, other_side, other, p_holm, stands"
        return warehouse.rows(f"select {columns} from opponents order by side, other_side")

    return opponents


def test_opponents_are_ours_best_published_lexicon_and_states(opponents):
    assert opponents(ACCURACIES) == [
        ("ours", "facet", "lexicon", "lexicon", None, None),
        ("ours", "facet", "published", "strong", None, None),
        ("ours", "facet", "states", "facet_states", None, None),
        ("published", "strong", "lexicon", "lexicon", None, None),
    ]


def test_the_best_published_method_is_the_lowest_where_lower_is_better(opponents):
    probe = {"task": "language_leakage", "metric": "accuracy"}
    rows = opponents({"facet": 0.6, "dream": 0.7, "strong": 0.9}, **probe)
    assert [row[:4] for row in rows] == [("ours", "facet", "published", "dream")]


@pytest.mark.parametrize("is_turned", [False, True])
def test_opponents_find_their_paired_test_in_either_order(opponents, warehouse, is_turned):
    test = {**FACET, **STRONG, "p_holm": 0.01, "ci_low": 0.1, "ci_high": 0.3}
    if is_turned:
        swap = {"a": "b", "b": "a"}
        test = {
            f"{name[:-1]}{swap[name[-1]]}" if name[-2:] in ("_a", "_b") else name: value for name, value in test.items()
        }
        test |= {"trained_on_b": "en-de", "embedding_b": "meaning", "difference": -0.2, "ci_low": -0.3, "ci_high": -0.1}
    rows = opponents({"facet": 0.9, "strong": 0.7}, [test])
    assert rows == [("ours", "facet", "published", "strong", 0.01, True)]
    (row,) = warehouse.ask("select difference, difference_low, difference_high from opponents")
    assert tuple(row.values()) == pytest.approx((0.2, 0.1, 0.3))

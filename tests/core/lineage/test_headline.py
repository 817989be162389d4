"""The figures of a method that the UI plots."""

from typing import Any

import pytest

from disent_core.lineage.headline import headline, result_line, table


def row(on: str, value: float | None, **other: Any) -> dict[str, Any]:
    """A row of `metrics`: retrieval by meaning, unless `other` says otherwise."""
    return {
        "task": "crosslingual_retrieval", "dataset": "sample", "evaluated_on": on, "embedding": "meaning",
        "metric": "accuracy_at_1", "value": value, "ci_low": None, "ci_high": None, "n": 10, "seed": None,
        "settings": "{}", **other,
    }  # fmt: skip


def template(on: str, value: float, **other: Any) -> dict[str, Any]:
    return row(on, value, task="multi_target_template_retrieval", metric="map", **other)


EN_DE = [("en", "de")]
LEAKS = [row("en-de", 0.1, embedding="language"), row("de-en", 0.3, embedding="language")]
PROBED = [row("en-de", value, task="language_leakage", metric="accuracy", embedding=name)
          for name, value in (("template", 0.6), ("meaning", 0.7))]  # fmt: skip
FIGURES = {
    # claim: (rows, figures)
    "both directions have their figure": (
        [row("en-de", 0.4), row("de-en", 0.2)], {"accuracy_at_1": 0.4, "accuracy_at_1_reverse": 0.2}),
    "languages and pairs beyond the training set do not count": ([row("en-ja", 0.4), template("ja", 0.4)], {}),
    "single seeds and missing values do not count": (
        [row("en-de", 0.4), row("en-de", 0.9, seed=1), row("de-en", None)], {"accuracy_at_1": 0.4}),
    "the language embedding leaks what it retrieves": (
        [row("en-de", 0.9), *LEAKS], {"accuracy_at_1": 0.9, "leakage": pytest.approx(0.2)}),
    "the meaning tells the language that a probe finds in it": (PROBED, {"language_in_meaning": 0.7}),
    "corrected retrieval is no figure": (
        [row("en-de", 0.4), row("en-de", 0.9, settings='{"hubness": "csls"}')], {"accuracy_at_1": 0.4}),
    "a task counts by the embedding that it ranks first": (
        [template("en", 0.2), template("en", 0.6, embedding="template")], {"template_map": 0.6}),
    "the first corpus counts": ([row("en-de", 0.4), row("en-de", 0.8, dataset="other")], {"accuracy_at_1": 0.4}),
    "another retrieval task stands in for one that is not measured": (
        [row("en-de", 0.4, task="heldout_retrieval"), row("en-de", 0.8, task="tatoeba_retrieval")],
        {"accuracy_at_1": 0.8}),
}  # fmt: skip


@pytest.mark.parametrize("claim", FIGURES)
def test_figures_are_means_of_what_a_method_was_measured_on(claim):
    rows, figures = FIGURES[claim]
    assert headline(rows, EN_DE) == figures


def test_a_mixture_has_the_mean_over_its_pairs():
    rows = [row("en-de", 0.4), row("en-ja", 0.2), row("de-en", 1.0)]
    figures = headline(rows, [("en", "de"), ("en", "ja")])
    assert figures == {"accuracy_at_1": pytest.approx(0.3), "accuracy_at_1_reverse": 1.0}


def test_the_table_has_one_uncorrected_number_of_each_task_corpus_and_direction_also_of_tasks_from_outside():
    rows = [row("en-de", 0.9, settings='{"hubness": "csls"}'), row("en-de", 0.4)]
    assert [shown["value"] for shown in table(rows, {"crosslingual_retrieval": ("meaning",)})] == [0.4]
    other = [row("en-de", 0.9, embedding="language"), row("en-de", 0.8, metric="map"), row("en-de", 0.7, seed=1)]
    ranked = {"crosslingual_retrieval": ("meaning", "sentence")}
    assert table([*other[:1], row("en-de", 0.12345), row("en-ja", 0.2), *other[1:]], ranked) == [
        {"measured": "crosslingual_retrieval, en-de", "corpus": "sample", "value": 0.1235},
        {"measured": "crosslingual_retrieval, en-ja", "corpus": "sample", "value": 0.2},
    ]
    rows = [row("de", 0.1, task="theirs", embedding=embedding) for embedding in ("language", "template")]
    rows[1]["value"] = 0.2
    assert table(rows, {"theirs": ("template",)}) == [{"measured": "theirs, de", "corpus": "sample", "value": 0.2}]


def test_the_result_is_told_in_each_direction_with_its_interval():
    rows = [row("en-de", 0.45, ci_low=0.4, ci_high=0.5), row("de-en", 0.2), template("en", 0.9)]
    line = "crosslingual retrieval, accuracy at 1: en-de 0.450 (0.400 to 0.500), de-en 0.200"
    assert result_line(rows, EN_DE) == line
    assert result_line(rows[2:], EN_DE) == "multi target template retrieval, map: en 0.900"
    assert result_line([], EN_DE) == ""

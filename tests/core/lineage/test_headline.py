"""The figures of a method that the UI plots."""

from typing import Any

import pytest

from disent_core.lineage.headline import headline, table


def row(on: str, value: float | None, **other: Any) -> dict[str, Any]:
    """A row of `metrics`: retrieval by meaning, unless told otherwise."""
    return {
        "task": "crosslingual_retrieval",
        "dataset": "sample",
        "evaluated_on": on,
        "embedding": "meaning",
        "metric": "accuracy_at_1",
        "value": value,
        "ci_low": None,
        "ci_high": None,
        "n": 10,
        "seed": None,
        "settings": "{}",
        **other,
    }


def template(on: str, value: float, **other: Any) -> dict[str, Any]:
    return row(on, value, task="multi_target_template_retrieval", metric="map", **other)


EN_DE = [("en", "de")]


def test_both_directions_have_their_figure():
    assert headline([row("en-de", 0.4), row("de-en", 0.2)], EN_DE) == {
        "accuracy_at_1": 0.4,
        "accuracy_at_1_reverse": 0.2,
    }


def test_a_mixture_has_the_mean_over_its_pairs():
    rows = [row("en-de", 0.4), row("en-ja", 0.2), row("de-en", 1.0)]
    figures = headline(rows, [("en", "de"), ("en", "ja")])
    assert figures == {"accuracy_at_1": pytest.approx(0.3), "accuracy_at_1_reverse": 1.0}


def test_languages_and_pairs_beyond_the_training_set_do_not_count():
    assert headline([row("en-ja", 0.4), template("ja", 0.4)], EN_DE) == {}


def test_single_seeds_and_missing_values_do_not_count():
    assert headline([row("en-de", 0.4), row("en-de", 0.9, seed=1), row("de-en", None)], EN_DE) == {"accuracy_at_1": 0.4}


def test_the_language_embedding_leaks_what_it_retrieves():
    leaks = [row("en-de", 0.1, embedding="language"), row("de-en", 0.3, embedding="language")]
    assert headline([row("en-de", 0.9), *leaks], EN_DE)["leakage"] == pytest.approx(0.2)


def test_the_meaning_tells_the_language_that_a_probe_finds_in_it():
    probed = [row("en-de", value, task="language_leakage", metric="accuracy", embedding=name)
              for name, value in (("template", 0.6), ("meaning", 0.7))]  # fmt: skip
    assert headline(probed, EN_DE) == {"language_in_meaning": 0.7}


def test_corrected_retrieval_is_no_figure():
    rows = [row("en-de", 0.4), row("en-de", 0.9, settings='{"hubness": "csls"}')]
    assert headline(rows, EN_DE) == {"accuracy_at_1": 0.4}
    assert [each["value"] for each in table(rows[::-1], {"crosslingual_retrieval": ("meaning",)})] == [0.4]


def test_a_task_counts_by_the_embedding_that_it_ranks_first():
    rows = [template("en", 0.2), template("en", 0.6, embedding="template")]
    assert headline(rows, EN_DE) == {"template_map": 0.6}


def test_the_first_corpus_counts():
    assert headline([row("en-de", 0.4), row("en-de", 0.8, dataset="other")], EN_DE) == {"accuracy_at_1": 0.4}


def test_another_retrieval_task_stands_in_for_one_that_is_not_measured():
    rows = [row("en-de", 0.4, task="heldout_retrieval"), row("en-de", 0.8, task="tatoeba_retrieval")]
    assert headline(rows, EN_DE) == {"accuracy_at_1": 0.8}


def test_the_table_has_one_number_of_each_task_corpus_and_direction():
    other = [row("en-de", 0.9, embedding="language"), row("en-de", 0.8, metric="map"), row("en-de", 0.7, seed=1)]
    ranked = {"crosslingual_retrieval": ("meaning", "sentence")}
    assert table([*other[:1], row("en-de", 0.12345), row("en-ja", 0.2), *other[1:]], ranked) == [
        {"measured": "crosslingual_retrieval, en-de", "corpus": "sample", "value": 0.1235},
        {"measured": "crosslingual_retrieval, en-ja", "corpus": "sample", "value": 0.2},
    ]


def test_the_table_has_tasks_that_are_not_of_the_library():
    rows = [row("de", 0.1, task="theirs", embedding=embedding) for embedding in ("language", "template")]
    rows[1]["value"] = 0.2
    assert table(rows, {"theirs": ("template",)}) == [{"measured": "theirs, de", "corpus": "sample", "value": 0.2}]

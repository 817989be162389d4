"""What a method is measured on with each training set, what its numbers depend on, and the figures of the UI."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds import corpus, encoder, experiment, section

from disent_core.config.load import load_config
from disent_core.evaluation import TASKS, task
from disent_core.lineage.evaluation_inputs import (
    CODE_VERSION,
    COMPARISONS_VERSION,
    Scope,
    Scopes,
    comparisons_version,
    ranked_by,
    tasks_of,
    version,
)
from disent_core.lineage.headline import headline, result_line, table
from disent_core.storage.tables import fingerprint

TEXT = (
    corpus("one", languages=["en-US", "de-DE", "fr-FR", "it-IT"])
    + corpus("two", "tatoeba", pairs=["de-en", "it-en"])
    + encoder()
    + experiment("raw", "dream", pairs=["en-de", "de-fr", "de-fr+en-de"])
    + section("evaluation", unseen=False)
)


@pytest.fixture
def measured(load):
    config = load(TEXT)
    return lambda method: {
        training_set: [
            "-".join((scope.corpus, *scope.languages))
            for scope in Scopes(config).of(config.methods[method], training_set)
        ]
        for training_set in config.training_sets
    }


def test_untrained_methods_are_measured_once_per_scope_and_trained_ones_per_training_set(measured):
    assert measured("raw") == {
        "en-de": ["one-en-de", "one-en", "one-de", "two-de-en", "one-it", "two-it-en"],  # no training set has italian
        "de-fr": ["one-de-fr", "one-fr"],
        "de-fr+en-de": ["one-de-en-fr"],
    }
    assert measured("dream") == {
        "en-de": ["one-en-de", "one-en", "one-de", "two-de-en"],
        "de-fr": ["one-de-fr", "one-de", "one-fr"],
        "de-fr+en-de": ["one-de-fr", "one-en-de", "one-de", "one-fr", "one-en", "one-de-en-fr", "two-de-en"],
    }


def test_shared_scopes_equal_scopes_built_per_training_set(load):
    config = load(TEXT.replace("unseen = false", "unseen = true"))
    shared = Scopes(config)
    for method in config.methods.values():
        measured = {name: set() for name in config.training_sets}
        for scope, names in shared.measured(method):
            for name in names:
                measured[name].add(scope)
        for name in config.training_sets:
            assert shared.of(method, name) == Scopes(config).of(method, name)
            assert set(shared.of(method, name)) == measured[name]


NAMED = TEXT.replace('"de-fr+en-de"', '"all"') + section(
    "training_sets.all", languages=["de", "fr"], evaluate=["de-fr"]
)


def test_scopes_of_a_named_set_are_pivot_pairs_further_pairs_then_languages(load):
    config = load(NAMED)
    scopes = ["-".join((scope.corpus, *scope.languages)) for scope in Scopes(config).of(config.methods["dream"], "all")]
    pairs, languages = ["one-en-de", "one-en-fr", "one-de-fr"], ["one-en", "one-de", "one-fr"]
    assert scopes == [*pairs, *languages, "one-de-en-fr", "two-de-en"]


def test_only_set_tasks_apply_to_three_languages():
    tasks = [task(name) for name in TASKS]
    several, pair = (Scope("one", "utterances", "all", languages) for languages in (("de", "en", "fr"), ("de", "en")))
    of_sentences = replace(pair, kind="translations")
    assert [of.name for of in tasks if several.has(of)] == ["language_pool_retrieval"]
    assert not any(scope.has(task("language_pool_retrieval")) for scope in (pair, of_sentences))


QUICK = load_config(Path(__file__).parents[3] / "configs" / "massive_quick.toml")


def test_default_hubness_leaves_earlier_results_up_to_date():
    assert "hubness" not in repr(QUICK.evaluation)
    corrected = replace(QUICK, evaluation=replace(QUICK.evaluation, hubness=("none", "csls")))
    assert version(corrected) != version(QUICK)


def test_the_held_out_search_engine_counts_only_if_that_task_is_measured():
    assert "heldout_search" not in repr(QUICK.evaluation)
    for tasks, is_same in ((("heldout_retrieval",), False), (("tatoeba_retrieval",), True)):
        exact = replace(QUICK, evaluation=replace(QUICK.evaluation, tasks=tasks))
        faiss = replace(exact, evaluation=replace(exact.evaluation, heldout_search="ivf"))
        assert (version(faiss) == version(exact)) is is_same


def test_results_without_seed_resampling_stay_valid_with_intervals_over_items():
    assert "intervals" not in repr(QUICK.evaluation)
    items, both = (
        replace(QUICK, evaluation=replace(QUICK.evaluation, intervals=over)) for over in ("items", "seeds_and_items")
    )
    assert version(items) == fingerprint(CODE_VERSION, items.evaluation, [t.code_version for t in tasks_of(items)])
    assert version(both) == version(QUICK) != version(items)
    evaluation = items.evaluation
    before = (COMPARISONS_VERSION, ranked_by(items), evaluation.bootstrap_samples, evaluation.bootstrap_seed)
    assert comparisons_version(items) == fingerprint(*before)
    assert comparisons_version(both) != comparisons_version(items)


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
def test_headline_figures_are_means_over_measured_directions(claim):
    rows, figures = FIGURES[claim]
    assert headline(rows, EN_DE) == figures


def test_a_mixture_has_the_mean_over_its_pairs():
    rows = [row("en-de", 0.4), row("en-ja", 0.2), row("de-en", 1.0)]
    figures = headline(rows, [("en", "de"), ("en", "ja")])
    assert figures == {"accuracy_at_1": pytest.approx(0.3), "accuracy_at_1_reverse": 1.0}


def test_the_table_has_one_uncorrected_number_per_task_corpus_and_direction():
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


def test_the_result_line_has_every_direction_with_its_interval():
    rows = [row("en-de", 0.45, ci_low=0.4, ci_high=0.5), row("de-en", 0.2), template("en", 0.9)]
    line = "crosslingual retrieval, accuracy at 1: en-de 0.450 (0.400 to 0.500), de-en 0.200"
    assert result_line(rows, EN_DE) == line
    assert result_line(rows[2:], EN_DE) == "multi target template retrieval, map: en 0.900"
    assert result_line([], EN_DE) == ""

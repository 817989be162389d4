"""Tests comparisons of methods: which pairs, by which test, with which correction."""

import logging
from datetime import UTC, datetime
from itertools import combinations
from zlib import crc32

import numpy as np
import pytest
from scipy import stats

from disent_core.errors import TableError
from disent_core.evaluation import comparisons
from disent_core.evaluation.comparisons import compare
from disent_core.evaluation.metrics.statistics import bootstrap_p, holm, mcnemar
from disent_core.storage.tables import SCHEMAS, rows_table

RANKED = {"crosslingual_retrieval": ("meaning", "sentence"), "slot_labelling": ("meaning", "sentence")}
HITS = (np.random.default_rng(2).random((4, 60)) < 0.5).astype(float)


def outcome(method, items, **columns):
    """A row of an untrained method, unless `columns` say otherwise."""
    items = np.asarray(items, dtype=np.float32)
    row = {
        **{"task": "crosslingual_retrieval", "dataset": "toy", "method": method, "encoder": "tiny", "trained_on": ""},
        **{"evaluated_on": "en-de", "embedding": "sentence", "metric": "accuracy_at_1", "seed": None},
        **{"settings": "{}", "columns": 1 if items.ndim == 1 else items.shape[1], "items": items.ravel()},
    }
    return {**row, **columns}


def compared(*rows, samples=200, over="items"):
    tables = [rows_table([row], "outcomes") for row in rows]  # one partition each, as on disk
    now = datetime(2024, 5, 1, tzinfo=UTC)
    return compare(tables, RANKED, samples=samples, seed=3, over=over, fingerprint="f", created_at=now)


def pairs(table):
    return [(row["method_a"], row["method_b"]) for row in table.to_pylist()]


def test_every_two_methods_are_compared_once_in_name_order():
    assert compared().num_rows == 0
    table = compared(outcome("raw", HITS[0]), outcome("dream", HITS[1]), outcome("emu", HITS[2]))
    assert table.schema == SCHEMAS["comparisons"]
    assert pairs(table) == [("dream", "emu"), ("dream", "raw"), ("emu", "raw")]
    first = table.to_pylist()[0]
    assert (first["value_a"], first["value_b"]) == pytest.approx((HITS[1].mean(), HITS[2].mean()))
    assert first["difference"] == pytest.approx(HITS[1].mean() - HITS[2].mean())
    assert first["n"] == 60


def test_methods_with_different_training_data_are_compared_only_with_untrained_ones():
    rows = [outcome("raw", HITS[0]), outcome("centered", HITS[1])]
    rows += [
        outcome(method, HITS[place], trained_on=training_set, seed=0)
        for place, method in enumerate(("dream", "emu"))
        for training_set in ("en-de", "en-de+en-es")
    ]
    systems = sorted((row["method"], row["trained_on"]) for row in rows)
    fair = [
        (*first, *second)
        for first, second in combinations(systems, 2)
        if first[1] == second[1] or "" in (first[1], second[1])
    ]
    names = ("method_a", "trained_on_a", "method_b", "trained_on_b")
    assert [tuple(row[name] for name in names) for row in compared(*rows).to_pylist()] == fair
    assert len(fair) == 11


def test_a_method_is_compared_by_its_first_ranked_embedding():
    dream = [outcome("dream", HITS[n], embedding=name) for n, name in enumerate(("language", "sentence", "meaning"))]
    (row,) = compared(outcome("raw", HITS[3]), *dream).to_pylist()
    assert (row["embedding_a"], row["embedding_b"]) == ("meaning", "sentence")
    assert row["value_a"] == pytest.approx(HITS[2].mean())


def test_only_methods_of_the_same_ranked_problem_are_compared():
    assert compared(*(outcome(name, HITS[0], task="sts") for name in ("dream", "raw"))).num_rows == 0
    differing = {"dataset": "b", "encoder": "b", "evaluated_on": "de-en", "metric": "b", "settings": '{"split": "dev"}'}
    rows = [outcome(f"m{n}", HITS[0], **{name: value}) for n, (name, value) in enumerate(differing.items())]
    assert compared(outcome("raw", HITS[1]), *rows).num_rows == 0


def test_unequal_items_and_unknown_metrics_are_skipped_and_logged(caplog):
    with caplog.at_level(logging.WARNING):
        table = compared(outcome("raw", HITS[0]), outcome("dream", HITS[1]), outcome("short", HITS[2, :50]))
        assert compared(*(outcome(name, np.ones((5, 2)), metric="new") for name in ("dream", "raw"))).num_rows == 0
    assert pairs(table) == [("dream", "raw")]
    of_items, of_metric = caplog.messages
    assert "unequal items" in of_items
    assert "short" in of_items
    assert "STATISTICS does not name this metric" in of_metric


def test_duplicate_seeds_and_unequal_items_are_errors():
    with pytest.raises(TableError, match=r"dream .* seed 1 appears twice"):
        compared(*[outcome("dream", HITS[0], seed=1)] * 2)
    with pytest.raises(TableError, match="seeds have items of different shapes"):
        compared(outcome("dream", HITS[0], seed=1), outcome("dream", HITS[0, :9], seed=2))


def test_single_runs_of_hits_have_the_exact_test_and_means_over_seeds_the_score_test():
    seeds = [outcome("dream", HITS[seed], seed=seed, trained_on="en-de") for seed in range(3)]
    table = compared(*seeds, outcome("emu", HITS[2], seed=0, trained_on="en-de"), outcome("raw", HITS[3]))
    rows = dict(zip(pairs(table), table.to_pylist(), strict=True))
    won, lost = int((HITS[2] > HITS[3]).sum()), int((HITS[3] > HITS[2]).sum())
    assert rows["emu", "raw"]["test"] == "mcnemar_exact"
    assert rows["emu", "raw"]["p_value"] == pytest.approx(stats.binomtest(won, won + lost).pvalue)
    mean = HITS[:3].mean(axis=0)
    assert rows["dream", "raw"]["test"] == rows["dream", "emu"]["test"] == "mcnemar"
    assert rows["dream", "raw"]["p_value"] == pytest.approx(mcnemar(np.stack([mean, HITS[3]]))[0, 1])
    assert rows["dream", "raw"]["value_a"] == pytest.approx(mean.mean())
    difference = mean - HITS[3]
    half = 1.96 * difference.std() / np.sqrt(60)
    interval = rows["dream", "raw"]["ci_low"], rows["dream", "raw"]["ci_high"]
    assert interval == pytest.approx((difference.mean() - half, difference.mean() + half), rel=1e-4)


def test_seeds_and_items_are_resampled_as_in_a_loop_the_seeds_of_each_method_apart():
    """Items are shared by both methods; of k seeds k - 1 are drawn, by the method's own generator."""
    hits = (np.random.default_rng(2).random((5, 60)) < [[0.8], [0.7], [0.6], [0.5], [0.4]]).astype(float)
    runs = {"dream": hits[:3], "emu": hits[3:]}
    rows = [
        outcome(name, items, seed=seed, trained_on="en-de")
        for name, of_name in runs.items()
        for seed, items in enumerate(of_name)
    ]
    (row,) = compared(*rows, samples=300, over="seeds_and_items").to_pylist()
    of_items, seeds = np.random.default_rng(3), {}
    for name, of_name in runs.items():
        generator = np.random.default_rng([3, crc32(f"{name} en-de".encode())])
        seeds[name] = generator.integers(0, len(of_name), (len(of_name) - 1, 300))
    differences = []
    for sample in range(300):
        drawn = of_items.integers(0, 60, 60)
        means = [
            np.mean([of_name[place][drawn].mean() for place in seeds[name][:, sample]])
            for name, of_name in runs.items()
        ]
        differences.append(means[0] - means[1])
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
    (p,), (is_normal,) = bootstrap_p(np.array([differences]))
    assert row["p_value"] == pytest.approx(p)
    assert row["test"] == "seeds_and_items_bootstrap" + "_normal" * int(is_normal)
    (of_items_alone,) = compared(*rows, samples=300).to_pylist()
    assert row["difference"] == of_items_alone["difference"]
    assert row["ci_high"] - row["ci_low"] > of_items_alone["ci_high"] - of_items_alone["ci_low"]


def test_methods_of_a_single_run_are_tested_on_items_alone():
    seeds = [outcome("dream", HITS[seed], seed=seed, trained_on="en-de") for seed in range(2)]
    rows = [*seeds, outcome("centered", HITS[2]), outcome("raw", HITS[3])]
    tables = [compared(*rows, over=over).drop_columns(["p_holm"]) for over in ("items", "seeds_and_items")]
    items, both = (dict(zip(pairs(table), table.to_pylist(), strict=True)) for table in tables)
    assert both["centered", "raw"] == items["centered", "raw"]
    assert both["centered", "raw"]["test"] == "mcnemar_exact"
    assert both["dream", "raw"]["test"].startswith("seeds_and_items_bootstrap")


def predictions():
    """Of two methods, the first over two seeds; and the gold scores."""
    rng = np.random.default_rng(8)
    gold = rng.integers(0, 6, 120).astype(np.float32)
    noise = rng.normal(size=(3, 120)) * [[2.0], [2.2], [2.7]]
    return (gold + noise).astype(np.float32), gold


def correlated(metric, samples):
    (first, second, untrained), gold = predictions()
    rows = [
        outcome("dream", np.stack([first, gold], axis=1), metric=metric, seed=0, trained_on="en-de"),
        outcome("dream", np.stack([second, gold], axis=1), metric=metric, seed=1, trained_on="en-de"),
        outcome("raw", np.stack([untrained, gold], axis=1), metric=metric),
    ]
    (row,) = compared(*rows, samples=samples).to_pylist()
    return row


@pytest.mark.parametrize(("metric", "correlate"), [("pearson", stats.pearsonr), ("spearman", stats.spearmanr)])
def test_the_interval_of_a_difference_of_correlations_equals_scipys_on_the_same_draws(metric, correlate):
    def difference(first, second, untrained, gold):
        a, b, c = (correlate(predicted, gold).statistic for predicted in (first, second, untrained))
        return (a + b) / 2 - c

    rows, gold = predictions()
    settings = {"paired": True, "vectorized": False, "n_resamples": 200, "method": "percentile"}
    expected = stats.bootstrap((*rows, gold), difference, **settings, rng=np.random.default_rng(3))
    row = correlated(metric, 200)
    assert row["difference"] == pytest.approx(difference(*rows, gold), abs=1e-6)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected.confidence_interval), abs=1e-6)


def test_equal_predictions_do_not_differ():
    items = np.stack([predictions()[0][0], predictions()[1]], axis=1)
    (row,) = compared(*(outcome(name, items, metric="spearman") for name in ("a", "b"))).to_pylist()
    assert (row["p_value"], row["ci_low"], row["ci_high"], row["test"]) == (1, 0, 0, "paired_bootstrap")


def test_means_that_are_not_of_hits_are_bootstrapped():
    scores = np.random.default_rng(0).uniform([[0.0], [0.06]], [[1.0], [1.06]], (2, 300))
    (row,) = compared(*(outcome(name, scores["ab".index(name)], metric="map") for name in "ab")).to_pylist()
    expected = stats.ttest_rel(*scores)
    assert row["test"].startswith("paired_bootstrap")
    assert row["p_value"] == pytest.approx(expected.pvalue, abs=0.02)
    interval = expected.confidence_interval(0.95)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high), abs=0.01)


def test_f1_is_made_again_from_counts():
    counts = np.random.default_rng(0).integers(0, 4, (2, 40, 3))
    counts[..., 0] = counts.min(axis=2)
    rows = [outcome(name, counts["ab".index(name)], task="slot_labelling", metric="span_f1") for name in "ab"]
    (row,) = compared(*rows).to_pylist()
    correct, predicted, gold = counts.sum(axis=1).T
    assert [row["value_a"], row["value_b"]] == pytest.approx((2 * correct / (predicted + gold)).tolist())


def test_differences_do_not_depend_on_the_size_of_blocks(monkeypatch):
    rows = [outcome(f"m{n}", np.random.default_rng(n).random(30), metric="map") for n in range(5)]
    in_one_block = compared(*rows)
    monkeypatch.setattr(comparisons, "_BLOCK_DIFFERENCES", 700)
    assert compared(*rows).equals(in_one_block)


def test_the_holm_family_spans_all_comparisons_of_a_metric():
    problems = [("en-de", '{"pool_size": 9}'), ("de-en", '{"pool_size": 8}')]
    rows = [
        outcome(f"m{n}", np.roll(HITS[n], place) if n else np.ones(60), evaluated_on=languages, settings=settings)
        for place, (languages, settings) in enumerate(problems)
        for n in range(3)
    ]
    other_metric = [outcome(f"m{n}", HITS[n], metric="another") for n in range(2)]
    table = compared(*rows, *other_metric).to_pylist()
    family = [row for row in table if row["metric"] == "accuracy_at_1"]
    assert len(family) == 6
    expected = holm(np.array([row["p_value"] for row in family]))
    assert [row["p_holm"] for row in family] == pytest.approx(expected.tolist())
    (alone,) = [row for row in table if row["metric"] == "another"]
    assert alone["p_holm"] == alone["p_value"]


def test_each_hubness_correction_has_a_separate_holm_family():
    plain = [outcome(f"m{n}", HITS[n] if n else np.ones(60)) for n in range(3)]
    corrected = [{**row, "settings": '{"hubness": "csls"}'} for row in plain]
    together = compared(*plain, *corrected).to_pylist()
    assert [row for row in together if row["settings"] == "{}"] == compared(*plain).to_pylist()

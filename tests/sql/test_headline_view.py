"""`headline` has one number a method and direction, `best` the winner of each direction beside the runner-up."""

from disent_core.evaluation import TASKS

RELATIONS = ("headline", "best")
RAW = {"method": "raw", "trained_on": "", "embedding": "sentence"}
BACK = {"evaluated_on": "de-en"}


def ask(warehouse, columns, view="headline", where="true"):
    return warehouse.rows(f"select {columns} from {view} where {where}")


def values_by_direction(values):
    """Metrics of methods in one direction, or in both."""
    no_interval = {"ci_low": None, "ci_high": None}
    return [
        {"method": method, "evaluated_on": direction, "value": value, **no_interval}
        for method, both in values.items()
        for direction, value in zip(("en-de", "de-en"), both, strict=False)
    ]


def test_a_method_has_one_row_a_direction(warehouse):
    others = [{"embedding": "language", "value": 0.45}, {"metric": "recall_at_5", "value": 0.6}]
    warehouse.build(metrics=[{}, {"seed": 0}, *others, {"trained_on": "en-de+en-es", "value": 0.6}, BACK, RAW])
    assert ask(warehouse, "method, evaluated_on, trained_on, embedding, metric, value") == [
        ("dream", "de-en", "en-de", "meaning", "accuracy_at_1", 0.5),
        ("dream", "en-de", "en-de", "meaning", "accuracy_at_1", 0.5),
        ("raw", "en-de", "", "sentence", "accuracy_at_1", 0.5),
    ]


SETS = {
    "en-de": ["en-es", "en-de"],
    "de-en+en-es": ["de-en+en-es", "en-es"],
    "en-de+en-es": ["en-de+en-es", "en-de+en-es+en-ja"],
    "en-es": ["en-ja", "en-es"],
}
"""The chosen of some training sets."""


def test_the_headline_uses_the_smallest_training_set_with_the_evaluated_languages(warehouse):
    warehouse.build(metrics=[{"dataset": chosen, "trained_on": name} for chosen, sets in SETS.items() for name in sets])
    assert dict(ask(warehouse, "dataset, trained_on")) == {chosen: chosen for chosen in SETS}


def test_the_languages_of_a_direction_may_have_hyphens(warehouse):
    metrics = [{"trained_on": name, "evaluated_on": "zh-CN-en"} for name in ("en-de", "en-zh-CN", "en-zh-TW")]
    warehouse.build(metrics=metrics)
    assert ask(warehouse, "trained_on") == [("en-zh-CN",)]


def test_a_named_training_set_counts_with_its_pairs_and_languages(warehouse):
    named = {"training_set": "all", "pairs": ["en-de", "en-es"], "languages": ["en", "de", "es"]}
    metrics = [{"trained_on": name} for name in ("all", "en-es", "en-de+en-es+en-ja")]
    between = [{**row, "evaluated_on": where} for row in metrics for where in ("de-es", "de+en+es")]
    warehouse.build(metrics=[*metrics, *between], training_sets=[named])
    assert ask(warehouse, "evaluated_on, trained_on") == [("de+en+es", "all"), ("de-es", "all"), ("en-de", "all")]
    warehouse.build(metrics=metrics)
    assert ask(warehouse, "trained_on") == [("en-de+en-es+en-ja",)]


def test_the_headline_has_paper_gold_scores_and_user_task_metrics(warehouse):
    qe = {"task": "qe", "metric": "pearson"}
    golds = [{**qe, "settings": f'{{"gold": "{gold}"}}'} for gold in ("mean", "z_mean")]
    warehouse.build(metrics=[*golds, {**golds[0], "metric": "spearman"}])
    assert ask(warehouse, "metric, settings") == [("pearson", '{"gold": "z_mean"}')]
    scored = [{"task": name, "embedding": "meaning", "preference": 1} for name in ("mine", *TASKS)]
    warehouse.build(metrics=[{"task": "mine", "metric": "my_score"}], scored_embeddings=scored)
    assert ask(warehouse, "metric, rank") == [("my_score", 1)]


def test_methods_are_ordered_by_how_far_they_are_from_the_best_of_each_direction(warehouse):
    values = {"everywhere": (0.8, 0.3), "only_easy": (0.7,), "uneven": (0.9, 0.1)}
    warehouse.build(metrics=values_by_direction(values))
    overall = dict(ask(warehouse, "method, overall"))
    assert sorted(overall, key=overall.__getitem__) == ["everywhere", "uneven", "only_easy"]
    ranks = dict(ask(warehouse, "method, rank", where="evaluated_on = 'en-de'"))
    assert ranks == {"uneven": 1, "everywhere": 2, "only_easy": 3}


def test_a_method_ranks_below_better_methods_with_more_directions(warehouse):
    values = {"dream": (0.9, 0.1), "few": (0.8,), "best": (0.7, 0.9)}
    warehouse.build(metrics=values_by_direction(values))
    assert sorted(ask(warehouse, "distinct overall, method")) == [(1, "best"), (2, "dream"), (3, "few")]


def test_ties_are_ordered_by_name(warehouse):
    for names in (["meat", "dream"], ["dream", "meat"]):
        warehouse.build(metrics=[{"method": name} for name in names])
        assert ask(warehouse, "method, rank, overall") == [("dream", 1, 1), ("meat", 2, 2)]


FACET = {"method": "facet", "value": 0.8, "ci_low": 0.7, "ci_high": 0.9}


def test_the_best_is_shown_with_its_runner_up(warehouse):
    close = {"evaluated_on": "en-es"}
    metrics = [FACET, RAW, {**BACK, **RAW}, FACET | close, RAW | close]
    warehouse.build(metrics=metrics, comparisons=[{"p_holm": 0.04}, {"p_holm": 0.06, **close}])
    columns = (
        "evaluated_on, method, value, runner_up, runner_up_value, difference_low, difference_high, stands, methods"
    )
    assert ask(warehouse, columns, "best") == [
        ("de-en", "raw", 0.5, None, None, None, None, None, 1),
        ("en-de", "facet", 0.8, "raw", 0.5, 0.2, 0.4, True, 2),
        ("en-es", "facet", 0.8, "raw", 0.5, 0.2, 0.4, False, 2),
    ]


def test_the_paired_test_of_the_best_is_found_in_either_order(warehouse):
    turned = {"value_a": 0.5, "value_b": 0.8, "difference": -0.3, "ci_low": -0.4, "ci_high": -0.2}
    sides = {"method_a": "dream", "method_b": "facet", "trained_on_b": "en-de", "embedding_b": "meaning"}
    warehouse.build(metrics=[FACET, {}], comparisons=[{**sides, **turned}])
    rows = ask(warehouse, "method, runner_up, round(difference, 6), difference_low, difference_high", "best")
    assert rows == [("facet", "dream", 0.3, 0.2, 0.4)]
    warehouse.build(metrics=[FACET, {"trained_on": "en-de+en-es"}], comparisons=[{}])
    assert ask(warehouse, "method, runner_up, stands", "best") == [("facet", "dream", None)]


def test_for_leakage_the_lowest_value_is_best(warehouse):
    clusters = {"task": "clustering", "metric": "silhouette_cosine", "settings": '{"labels": "language"}'}
    warehouse.build(metrics=[{**clusters, "value": 0.45}, {**clusters, **RAW}])
    assert ask(warehouse, "method, runner_up", "best") == [("dream", "raw")]

"""The views are right for invented measurements."""

import pytest

from disent_core.evaluation import TASKS, task
from disent_core.lineage.tables import scored_embeddings

RELATIONS = ("leaderboard", "case_studies")
RAW = {"method": "raw", "trained_on": "", "embedding": "sentence"}
FMDA = {"method": "fmda"}
TEMPLATE = {"task": "template_retrieval", "evaluated_on": "en"}
MINING = {"task": "bitext_mining"}
THRESHOLD = {"metric": "threshold", "value": 1.1, "ci_low": None, "ci_high": None}
LANGUAGE = {"task": "language_identification"}
LEAK = {"task": "language_leakage", "metric": "accuracy"}
CLUSTERS = {"task": "clustering", "metric": "silhouette_cosine", "settings": '{"labels": "language"}'}
HUBNESS = {
    "csls": "csls (transductive)", "dual_softmax": "dual_softmax (transductive)", "train_bias": "train_bias",
}  # fmt: skip
UP, LEAKAGE = "higher is better", "leakage, lower is better"

BOARDS = {
    "each method is ranked by the embedding that the task is scored on": (
        [{**RAW, "value": 0.41}, {}, {**FMDA, "value": 0.55}, {**FMDA, "embedding": "template", "value": 0.6}],
        "method, embedding, rank",
        [("fmda", "meaning", 1), ("dream", "meaning", 2), ("raw", "sentence", 3), ("fmda", "template", None)],
    ),
    "template retrieval is scored on the template where there is one": (
        [
            {**TEMPLATE, "value": 0.6},
            {**TEMPLATE, **FMDA, "value": 0.45},
            {**TEMPLATE, **FMDA, "embedding": "template", "value": 0.5},
        ],
        "method, embedding, rank",
        [("dream", "meaning", 1), ("fmda", "template", 2), ("fmda", "meaning", None)],
    ),
    "a threshold found on dev is shown and not ranked": (
        [{**MINING, **method, **row} for method in ({}, RAW) for row in (THRESHOLD, {"metric": "f1", "value": 0.6})],
        "distinct metric, reads_as, rank",
        [("f1", UP, 1), ("threshold", "a choice, not a score", None)],
    ),
    "language embeddings read as leakage": (
        [{}, {"embedding": "language", "value": 0.45}],
        "embedding, reads_as, rank",
        [("meaning", UP, 1), ("language", LEAKAGE, None)],
    ),
    "language identification wants the language in the language embedding": (
        [LANGUAGE, {**LANGUAGE, "embedding": "language"}],
        "embedding, reads_as, rank",
        [("language", UP, 1), ("meaning", LEAKAGE, None)],
    ),
    "language identification ranks a method without language embedding by its sentence embedding": (
        [{**LANGUAGE, "embedding": "language"}, {**LANGUAGE, **RAW, "value": 0.45}],
        "method, reads_as, rank",
        [("dream", UP, 1), ("raw", UP, 2)],
    ),
    "language leakage ranks by how little the meaning tells": (
        [LEAK, {**LEAK, **RAW, "value": 0.6}, {**LEAK, "embedding": "template", "value": 0.42}],
        "method, embedding, reads_as, rank",
        [("dream", "meaning", LEAKAGE, 1), ("raw", "sentence", LEAKAGE, 2), ("dream", "template", LEAKAGE, None)],
    ),
    "clusters of languages are leakage whatever the embedding": (
        [{**CLUSTERS, "value": 0.45}, {**CLUSTERS, **RAW}, {**CLUSTERS, "embedding": "language"}],
        "method, embedding, reads_as, rank",
        [("dream", "meaning", LEAKAGE, 1), ("raw", "sentence", LEAKAGE, 2), ("dream", "language", UP, None)],
    ),
    "ranks do not cross encoders or directions": (
        [{}, {"encoder": "xlmr"}, {"evaluated_on": "de-en"}],
        "rank",
        [(1,), (1,), (1,)],
    ),
    "a correction has a ranking of its own and is marked if it is transductive": (
        [{}, {**FMDA, "value": 0.58}, *({"value": 0.41, "settings": f'{{"hubness": "{name}"}}'} for name in HUBNESS)],
        "method, hubness, rank",
        [("fmda", "none", 1), ("dream", "none", 2), *(("dream", shown, 1) for shown in HUBNESS.values())],
    ),
    "equal values share a rank": (
        [{}, {"method": "meat"}, {"method": "oracle", "value": 0.45}],
        "rank",
        [(1,), (1,), (3,)],
    ),
    "seeds are counted, and aggregates alone are shown": (
        [{"seed": 0, "value": 0.4}, {"seed": 1, "value": 0.6}, {}, {**RAW, "value": 0.41}],
        "method, value, seeds, round(seed_std, 9)",
        [("dream", 0.5, 2, round(0.2 / 2**0.5, 9)), ("raw", 0.41, 0, None)],
    ),
}


def test_the_leaderboard(warehouse):
    """Each board has a data set of its own."""
    warehouse.build(metrics=[row | {"dataset": name} for name, (metrics, *_) in BOARDS.items() for row in metrics])
    for name, (_, columns, rows) in BOARDS.items():
        shown = warehouse.rows(f"select {columns} from leaderboard where dataset = '{name}'")
        assert (sorted(shown, key=str) if "distinct" in columns else shown) == rows, name


def test_a_user_task_can_declare_lower_is_better(warehouse):
    mine = {"task": "mine", "embedding": "meaning", "preference": 1, "lower_is_better": True}
    metrics = [{"task": "mine"}, {"task": "mine", "method": "meat", "value": 0.45}]
    warehouse.build(metrics=metrics, scored_embeddings=[*scored_embeddings(TASKS), mine])
    board = warehouse.rows("select method, reads_as, rank from leaderboard")
    assert board == [("meat", "lower is better", 1), ("dream", "lower is better", 2)]


def test_a_task_ranks_a_method_by_its_first_available_embedding(warehouse):
    far = [
        {"task": "far", "embedding": "residual", "preference": 1},
        {"task": "far", "embedding": "sentence", "preference": 2},
    ]
    rows = [{"embedding": "residual"}, {"embedding": "meaning", "value": 0.6}, {**RAW, "value": 0.4}]
    metrics = [{**row, "task": "far"} for row in rows]
    warehouse.build(metrics=metrics, scored_embeddings=[*scored_embeddings(TASKS), *far])
    board = warehouse.rows("select method, embedding, rank from leaderboard order by rank nulls last")
    assert board == [("dream", "residual", 1), ("raw", "sentence", 2), ("dream", "meaning", None)]


@pytest.mark.parametrize("name", TASKS)
def test_the_warehouse_ranks_a_task_by_its_declared_embeddings(name, published):
    rows = published.ask(f"select embedding from parts.scored_embeddings where task = '{name}' order by preference")
    assert tuple(row["embedding"] for row in rows) == task(name).ranked


def test_only_language_leakage_tasks_prefer_low_values():
    assert {row["task"] for row in scored_embeddings(TASKS) if row["lower_is_better"]} == {
        "language_leakage", "language_leakage_knn", "language_leakage_mlp", "own_language_neighbours",
    }  # fmt: skip


def test_leaderboard_ties_are_ordered_by_name(warehouse):
    rows = [{"method": name, "trained_on": pair} for name in ("meat", "dream") for pair in ("en-es", "en-de")]
    orders = []
    for turned in (rows, rows[::-1]):
        warehouse.build(metrics=turned)
        orders.append(warehouse.rows("select method, trained_on from leaderboard"))
    assert orders == [[(name, pair) for name in ("dream", "meat") for pair in ("en-de", "en-es")]] * 2


def test_seed_variance_keeps_settings_apart(warehouse):
    settings = ['{"train_examples": 50}', '{"train_examples": 100}']
    seeds = [{"settings": text, "seed": seed} for text in settings for seed in (0, 1, 2)]
    warehouse.build(metrics=[*seeds, *({"settings": text} for text in settings)])
    rows = warehouse.ask("select seeds, mean, std, min, max from seed_variance")
    assert rows == [{"seeds": 3, "mean": 0.5, "std": 0.0, "min": 0.5, "max": 0.5}] * 2


def test_case_studies_show_query_gold_and_best_candidate(warehouse):
    german = [
        {"language": "de", "utterance_id": "1", "text": "weck mich"},
        {"language": "de", "utterance_id": "2", "text": "schlaf gut"},
    ]
    warehouse.build(
        utterances=[{}, *german],
        rankings=[{}, {"method": "raw", "trained_on": "", "seed": None, "candidate_id": "2", "is_gold": False}],
    )
    rows = warehouse.ask("select method, query_text, gold_text, top_text, is_gold from case_studies")
    texts = {"query_text": "wake me up", "gold_text": "weck mich"}
    assert rows == [
        {"method": "dream", **texts, "top_text": "weck mich", "is_gold": True},
        {"method": "raw", **texts, "top_text": "schlaf gut", "is_gold": False},
    ]


@pytest.mark.parametrize(
    ("evaluated_on", "query_text", "top_text"),
    [("en-zh-CN", "wake me up", "叫醒我"), ("zh-CN-zh-TW", "叫醒我", "叫我起床"), ("zh-CN", "叫醒我", "叫醒我")],
)
def test_case_studies_know_the_languages_whose_codes_have_hyphens(warehouse, evaluated_on, query_text, top_text):
    chinese = [{"language": "zh-CN", "text": "叫醒我"}, {"language": "zh-TW", "text": "叫我起床"}]
    warehouse.build(utterances=[{}, *chinese], rankings=[{"evaluated_on": evaluated_on}])
    assert warehouse.rows("select query_text, top_text from case_studies") == [(query_text, top_text)]


def test_case_studies_of_templates_show_generated_targets(warehouse):
    ranking = {"task": "template_retrieval", "evaluated_on": "en", "candidate_id": "1#1", "is_gold": False}
    warehouse.build(
        utterances=[{}], template_pairs=[{}, {"target_index": 1, "target_text": "wake me at ten"}], rankings=[ranking]
    )
    assert warehouse.ask("select gold_text, top_text from case_studies") == [
        {"gold_text": "wake me at nine", "top_text": "wake me at ten"}
    ]


def test_case_studies_keep_queries_whose_texts_are_not_loaded(warehouse):
    warehouse.build(rankings=[{"task": "tatoeba_retrieval", "dataset": "tatoeba"}])
    assert warehouse.ask("select query_id, query_text, top_text from case_studies") == [
        {"query_id": "1", "query_text": None, "top_text": None}
    ]


def test_convergence_of_untrained_and_closed_form_methods_is_null(warehouse):
    curve = {"encoder": "minilm", "trained_on": "en-de", "split": "dev", "term": "total", "value": 1.0, "epoch": 1}
    curve |= {"seed": 0, "is_best": True}
    settings = [{"method": name, "may_stop_early": name == "dream"} for name in ("dream", "centered", "raw")]
    rows = [{"method": "dream"}, {"method": "centered", "embedding": "sentence"}, RAW]
    curves = [{**curve, "method": name} for name in ("dream", "centered")]
    warehouse.build(metrics=rows, configured_methods=settings, training_curve=curves)
    assert dict(warehouse.rows("select method, converged from leaderboard")) == {
        "dream": False,
        "centered": None,
        "raw": None,
    }


def test_the_leaderboard_shows_the_training_data_of_an_encoder(warehouse):
    rows = [{"encoder": "multi"}, {"encoder": "other"}]
    encoders = [{"encoder": "multi", "kind": "distilled", "settings": "{}", "encoder_saw": "bitext"}]
    warehouse.build(metrics=rows, encoders=encoders)
    saw = warehouse.rows("select encoder, encoder_saw from leaderboard order by encoder")
    assert saw == [("multi", "bitext"), ("other", None)]

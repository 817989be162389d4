"""The views are right for invented measurements."""

import pytest

from disent_core.evaluation import TASKS
from disent_core.lineage.tables import scored_embeddings

RAW = {"method": "raw", "trained_on": "", "embedding": "sentence"}


def board(warehouse, columns="method, embedding, rank"):
    return [tuple(row.values()) for row in warehouse.ask(f"select {columns} from leaderboard")]


def test_the_leaderboard_ranks_each_method_by_the_embedding_that_the_task_is_scored_on(warehouse):
    warehouse.build(
        metrics=[
            {**RAW, "value": 0.41},
            {"value": 0.5},
            {"method": "fmda", "value": 0.55},
            {"method": "fmda", "embedding": "template", "value": 0.6},
        ]
    )
    assert board(warehouse) == [
        ("fmda", "meaning", 1),
        ("dream", "meaning", 2),
        ("raw", "sentence", 3),
        ("fmda", "template", None),
    ]


def test_template_retrieval_is_scored_on_the_template_where_there_is_one(warehouse):
    template = {"task": "template_retrieval", "evaluated_on": "en"}
    warehouse.build(
        metrics=[
            {**template, "value": 0.6},
            {**template, "method": "fmda", "value": 0.45},
            {**template, "method": "fmda", "embedding": "template", "value": 0.5},
        ]
    )
    assert board(warehouse) == [("dream", "meaning", 1), ("fmda", "template", 2), ("fmda", "meaning", None)]


def test_a_threshold_found_on_dev_is_shown_and_not_ranked(warehouse):
    mining = {"task": "bitext_mining"}
    found = [{"metric": "threshold", "value": 1.1, "ci_low": None, "ci_high": None}, {"metric": "f1", "value": 0.6}]
    warehouse.build(metrics=[{**mining, **own, **each} for own in ({}, RAW) for each in found])
    assert sorted(set(board(warehouse, "metric, reads_as, rank")), key=str) == [
        ("f1", "higher is better", 1),
        ("threshold", "a choice, not a score", None),
    ]


def test_language_embeddings_read_as_leakage(warehouse):
    warehouse.build(metrics=[{}, {"embedding": "language", "value": 0.45}])
    assert board(warehouse, "embedding, reads_as, rank") == [
        ("meaning", "higher is better", 1),
        ("language", "leakage, lower is better", None),
    ]


def test_language_identification_wants_the_language_in_the_language_embedding(warehouse):
    task = {"task": "language_identification"}
    warehouse.build(metrics=[task, {**task, "embedding": "language"}])
    assert board(warehouse, "embedding, reads_as, rank") == [
        ("language", "higher is better", 1),
        ("meaning", "leakage, lower is better", None),
    ]


def test_language_identification_ranks_a_method_without_language_embedding_by_its_sentence_embedding(warehouse):
    task = {"task": "language_identification"}
    warehouse.build(metrics=[{**task, "embedding": "language"}, {**task, **RAW, "value": 0.45}])
    assert board(warehouse, "method, reads_as, rank") == [
        ("dream", "higher is better", 1),
        ("raw", "higher is better", 2),
    ]


def test_language_leakage_ranks_by_how_little_the_meaning_tells(warehouse):
    task = {"task": "language_leakage", "metric": "accuracy"}
    warehouse.build(metrics=[task, {**task, **RAW, "value": 0.6}, {**task, "embedding": "template", "value": 0.42}])
    assert board(warehouse, "method, embedding, reads_as, rank") == [
        ("dream", "meaning", "leakage, lower is better", 1),
        ("raw", "sentence", "leakage, lower is better", 2),
        ("dream", "template", "leakage, lower is better", None),
    ]


def test_a_task_of_ones_own_may_say_that_lower_is_better(warehouse):
    mine = {"task": "mine", "embedding": "meaning", "preference": 1, "lower_is_better": True}
    scored = [*scored_embeddings(TASKS), mine]
    warehouse.build(
        metrics=[{"task": "mine"}, {"task": "mine", "method": "meat", "value": 0.45}], scored_embeddings=scored
    )
    assert board(warehouse, "method, reads_as, rank") == [
        ("meat", "lower is better", 1),
        ("dream", "lower is better", 2),
    ]


def test_clusters_of_languages_are_leakage_whatever_the_embedding(warehouse):
    clusters = {"task": "clustering", "metric": "silhouette_cosine", "settings": '{"labels": "language"}'}
    warehouse.build(metrics=[{**clusters, "value": 0.45}, {**clusters, **RAW}, {**clusters, "embedding": "language"}])
    assert board(warehouse, "method, embedding, reads_as, rank") == [
        ("dream", "meaning", "leakage, lower is better", 1),
        ("raw", "sentence", "leakage, lower is better", 2),
        ("dream", "language", "higher is better", None),
    ]


def test_equals_come_in_the_order_of_their_names_whatever_order_they_are_loaded_in(warehouse):
    rows = [{"method": name, "trained_on": pair} for name in ("meat", "dream") for pair in ("en-es", "en-de")]
    orders = []
    for turned in (rows, rows[::-1]):
        warehouse.build(metrics=turned)
        orders.append(board(warehouse, "method, trained_on"))
    assert orders == [[(name, pair) for name in ("dream", "meat") for pair in ("en-de", "en-es")]] * 2


def test_ranks_do_not_cross_encoders_or_directions(warehouse):
    warehouse.build(metrics=[{}, {"encoder": "xlmr"}, {"evaluated_on": "de-en"}])
    assert board(warehouse, "rank") == [(1,), (1,), (1,)]


def test_equal_values_share_a_rank(warehouse):
    warehouse.build(metrics=[{}, {"method": "meat"}, {"method": "oracle", "value": 0.45}])
    assert board(warehouse, "rank") == [(1,), (1,), (3,)]


def test_the_leaderboard_counts_seeds_and_shows_aggregates_only(warehouse):
    warehouse.build(metrics=[{"seed": 0, "value": 0.4}, {"seed": 1, "value": 0.6}, {}, {**RAW, "value": 0.41}])
    rows = warehouse.ask("select method, value, seeds, seed_std from leaderboard")
    assert rows == [
        {"method": "dream", "value": 0.5, "seeds": 2, "seed_std": pytest.approx(0.2 / 2**0.5)},
        {"method": "raw", "value": 0.41, "seeds": 0, "seed_std": None},
    ]


def test_seed_variance_keeps_settings_apart(warehouse):
    settings = ['{"train_examples": 50}', '{"train_examples": 100}']
    seeds = [{"settings": text, "seed": seed} for text in settings for seed in (0, 1, 2)]
    warehouse.build(metrics=[*seeds, *({"settings": text} for text in settings)])
    rows = warehouse.ask("select seeds, mean, std, min, max from seed_variance")
    assert rows == [{"seeds": 3, "mean": 0.5, "std": 0.0, "min": 0.5, "max": 0.5}] * 2


def test_measured_figures_stand_beside_published_ones_of_the_same_name(warehouse):
    warehouse.build(metrics=[{"method": "fmda"}, {**RAW, "value": 0.5}, {"method": "my_fmda"}])
    rows = warehouse.ask("""
        select method, "table" as t, published, measured, difference, published_encoder, measured_encoder
        from published_vs_measured where measured is not null and "table" = 'T2' order by method
    """)
    encoders = {"published_encoder": "xlm_roberta_base", "measured_encoder": "minilm"}
    assert rows == [
        {"method": "fmda", "t": "T2", "published": 0.594, "measured": 0.5, "difference": -0.094, **encoders},
        {"method": "raw", "t": "T2", "published": 0.182, "measured": 0.5, "difference": 0.318, **encoders},
    ]


def test_a_model_trained_on_another_pair_is_not_compared(warehouse):
    warehouse.build(metrics=[{"method": "fmda", "trained_on": "en-es"}])
    assert warehouse.ask("from published_vs_measured where measured is not null") == []
    assert warehouse.ask("from fmda_table2 where encoder is not null") == []


def test_one_language_on_both_sides_is_compared_under_either_name(warehouse):
    sts = {**RAW, "task": "sts", "metric": "pearson", "dataset": "sts2017"}
    warehouse.build(metrics=[{**sts, "evaluated_on": "en-en"}, {**sts, "evaluated_on": "es"}])
    found = warehouse.ask("select distinct evaluated_on from published_vs_measured where measured is not null")
    assert {row["evaluated_on"] for row in found} == {"en", "es"}


def test_fmda_table_2_shows_the_paper_where_nothing_is_measured(published):
    rows = published.ask("select * from fmda_table2")
    assert [(row["method"], row["embedding"]) for row in rows] == [
        ("raw", "sentence"),
        ("dream", "meaning"),
        ("fmda", "meaning"),
        ("fmda", "template"),
        ("fmda", "residual"),
    ]
    assert [row["en_de_published"] for row in rows] == [0.182, 0.550, 0.594, 0.583, 0.283]
    assert [row["ja_en_published"] for row in rows] == [0.037, 0.359, 0.380, 0.371, 0.075]
    unmeasured = [name for name in rows[0] if name.endswith(("_measured", "_difference"))]
    assert {row[name] for row in rows for name in unmeasured} == {None}


@pytest.mark.parametrize(("table", "first", "template"), [(3, 0.371, 0.427), (6, 0.370, 0.421)])
def test_fmda_tables_3_and_6_have_a_column_for_each_training_pair_and_language(published, table, first, template):
    rows = published.ask(f"select * from fmda_table{table}")
    assert len(rows) == 5
    assert rows[0]["en_de_on_en_published"] == first
    assert rows[3]["en_de_on_en_published"] == template
    assert all(row[f"{pair}_published"] for row in rows for pair in ("en_es_on_es", "en_ja_on_en", "en_ja_on_ja"))


def test_fmda_table_2_has_a_row_for_each_encoder_and_for_methods_of_ours(warehouse):
    fmda = {"method": "fmda"}
    warehouse.build(metrics=[fmda, {**fmda, "encoder": "xlmr", "value": 0.6}, {"method": "my_fmda"}])
    rows = warehouse.ask("select * from fmda_table2 where encoder is not null")
    cells = ("method", "encoder", "en_de_published", "en_de_measured", "en_de_difference", "de_en_published")
    assert [tuple(row[cell] for cell in cells) for row in rows] == [
        ("fmda", "minilm", 0.594, 0.5, -0.094, 0.605),
        ("my_fmda", "minilm", None, 0.5, None, None),
        ("fmda", "xlmr", 0.594, 0.6, 0.006, 0.605),
    ]


def test_the_untrained_encoder_meets_every_training_pair_of_fmda_table_3(warehouse):
    warehouse.build(metrics=[{**RAW, "task": "template_retrieval", "evaluated_on": "en"}])
    (row,) = warehouse.ask("select * from fmda_table3 where method = 'raw'")
    assert [row[f"{pair}_on_en_measured"] for pair in ("en_de", "en_es", "en_ja")] == [0.5, 0.5, 0.5]
    assert row["en_de_on_de_measured"] is None


def test_a_model_of_several_pairs_has_a_row_of_its_own(warehouse):
    warehouse.build(metrics=[{"method": "fmda_unified", "trained_on": "en-de+en-es"}])
    (row,) = warehouse.ask("select * from fmda_table2 where method = 'fmda_unified'")
    assert (row["training"], row["en_de_measured"], row["en_de_published"]) == ("en-de+en-es", 0.5, None)


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


def test_case_studies_of_templates_show_generated_targets(warehouse):
    ranking = {"task": "template_retrieval", "evaluated_on": "en", "candidate_id": "1#1", "is_gold": False}
    warehouse.build(
        utterances=[{}],
        template_pairs=[{}, {"target_index": 1, "target_text": "wake me at ten"}],
        rankings=[ranking],
    )
    assert warehouse.ask("select gold_text, top_text from case_studies") == [
        {"gold_text": "wake me at nine", "top_text": "wake me at ten"}
    ]


def test_case_studies_keep_queries_whose_texts_are_not_loaded(warehouse):
    warehouse.build(rankings=[{"task": "tatoeba_retrieval", "dataset": "tatoeba"}])
    assert warehouse.ask("select query_id, query_text, top_text from case_studies") == [
        {"query_id": "1", "query_text": None, "top_text": None}
    ]


def test_untrained_and_closed_form_methods_are_neither_run_out_nor_cut_short(warehouse):
    curve = {"encoder": "minilm", "trained_on": "en-de", "split": "dev", "term": "total", "value": 1.0, "epoch": 1}
    curve |= {"seed": 0, "is_best": True}
    settings = [{"method": name, "may_stop_early": name == "dream"} for name in ("dream", "centered", "raw")]
    rows = [{"method": "dream"}, {"method": "centered", "embedding": "sentence"}, RAW]
    curves = [{**curve, "method": name} for name in ("dream", "centered")]
    warehouse.build(metrics=rows, configured_methods=settings, training_curve=curves)
    assert dict(board(warehouse, "method, converged")) == {"dream": False, "centered": None, "raw": None}


def test_the_leaderboard_says_what_an_encoder_saw_or_nothing(warehouse):
    rows = [{"encoder": "multi"}, {"encoder": "other"}]
    encoders = [{"encoder": "multi", "kind": "distilled", "settings": "{}", "encoder_saw": "bitext"}]
    warehouse.build(metrics=rows, encoders=encoders)
    found = warehouse.ask("select encoder, encoder_saw from leaderboard order by encoder")
    assert [(row["encoder"], row["encoder_saw"]) for row in found] == [("multi", "bitext"), ("other", None)]

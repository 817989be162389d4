"""Measured figures are in the right cells of the papers' tables, and derived figures are computed as in the papers."""

import json

import pytest

RELATIONS = ("papers", "coverage", "tatoeba_averages", "published_vs_measured")
NO_INTERVAL = {"ci_low": None, "ci_high": None}
STS = {"task": "sts", "dataset": "sts2017", "metric": "pearson", "trained_on": "en-de", **NO_INTERVAL}
TATOEBA = {"task": "tatoeba_retrieval", "dataset": "tatoeba", "trained_on": "en-de+en-fr", **NO_INTERVAL}
SLOTS = {
    **{"task": "slot_labelling", "dataset": "xsid", "metric": "micro_f1", "embedding": "sentence"},
    **{"trained_on": "en-de", "evaluated_on": "de", **NO_INTERVAL},
}
INTENTS = {"task": "intent_knn", "embedding": "sentence", **NO_INTERVAL}
RAW = {"method": "raw", "trained_on": "", "embedding": "sentence"}
TATOEBA_14 = ["ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"]


def configured(method: str, base: str, **settings) -> dict:
    return {"method": method, "base_method": base, "settings": json.dumps(settings)}


def measured(warehouse, columns="method, column_label, published, measured, difference", where="measured is not null"):
    return warehouse.rows(f"select {columns} from paper_cells where {where} order by all")


def test_a_paper_table_shows_measured_figures_extra_methods_and_gaps(warehouse):
    figure = {**STS, "evaluated_on": "en-de", "value": 0.7}
    warehouse.build(metrics=[figure, {**figure, "method": "facet", "value": 0.8}])
    (row,) = warehouse.ask("from dream_table4 where printed_as = 'DREAM-LaBSE'")
    assert (row["method"], row["dataset"], row["encoder"], row["trained_on"]) == ("dream", "sts2017", "minilm", "en-de")
    assert (row["en_de_published"], row["en_de_measured"], row["en_de_difference"]) == (0.746, 0.7, -0.046)
    assert (row["en_fr_published"], row["en_fr_measured"], row["en_fr_difference"]) == (0.782, None, None)
    assert "avg: 1 of 7 parts measured, mean 0.700" in row["why_missing"]
    (row,) = warehouse.ask("from dream_table4 where method = 'facet'")
    assert (row["printed_as"], row["en_de_measured"], row["en_de_published"]) == (None, 0.8, None)
    reasons = {name: measured(warehouse, "distinct why_missing", f"printed_as = '{name}' and column_label = 'en_fr'")
               for name in ("DREAM-LaBSE", "LaBSE")}  # fmt: skip
    assert ("not run yet: dream on sts2017 with minilm",) in reasons["DREAM-LaBSE"]
    assert any(reason.startswith("not run yet: LaBSE is public") for (reason,) in reasons["LaBSE"])


def test_similarity_cells_match_language_pairs_in_either_order(warehouse):
    names = {"en-ar": "en_ar", "de-en": "en_de", "en-en": "en_en", "es": "es_es"}
    warehouse.build(metrics=[{**STS, "evaluated_on": name} for name in names])
    assert {row[1] for row in measured(warehouse)} == {*names.values()}
    compared = "select distinct evaluated_on from published_vs_measured where measured is not null and task = 'sts'"
    assert {("en",), ("es",)} <= {*warehouse.rows(compared)}


def test_a_variant_is_listed_under_its_base_method(warehouse):
    rows = [{**STS, "evaluated_on": "en-de", "method": name} for name in ("fast", "unknown")]
    warehouse.build(metrics=rows, configured_methods=[configured("fast", "dream")])
    assert measured(warehouse, "distinct method, published is null") == [("fast", False), ("unknown", True)]


def test_a_variant_with_without_matches_the_paper_ablation_by_settings(warehouse):
    metrics = [{"method": "lean", "value": 0.2, **NO_INTERVAL}]
    warehouse.build(metrics=metrics, configured_methods=[configured("lean", "fmda", without=["contrast"])])
    assert measured(warehouse, where="published is not null and measured is not null") == [
        ("lean", "en_de", 0.241, 0.2, -0.041)
    ]


def test_slots_are_found_by_the_number_of_training_examples(warehouse):
    examples = {"few": 50, "some": 77}
    methods = [configured(name, "twosl", examples=n, negatives_per_positive=2) for name, n in examples.items()]
    warehouse.build(metrics=[{**SLOTS, "method": name} for name in ("few", "some")], configured_methods=methods)
    rows = measured(warehouse, "distinct examples, method", "measured is not null and paper = 'twosl'")
    assert rows == [(50, "few")]


def test_slots_are_found_by_the_number_of_negatives_where_the_paper_tells_it(warehouse):
    negatives = {"few": 1, "more": 2}
    methods = [configured(name, "twosl", examples=50, negatives_per_positive=n) for name, n in negatives.items()]
    metrics = [{**SLOTS, "method": name, "evaluated_on": "ar"} for name in negatives]
    warehouse.build(metrics=metrics, configured_methods=methods)
    where = "measured is not null and published is not null and encoder is not null and printed_as like 'mpnet%'"
    rows = measured(warehouse, 'distinct method, "table"', f"{where} and \"table\" <> 'T9'")
    assert rows == [("few", "T10"), ("more", "T10"), ("more", "T2"), ("more", "T5")]


def test_the_larger_mixture_with_the_pair_is_preferred_and_zero_shot_is_marked(warehouse):
    of_pair = {**STS, "evaluated_on": "en-de"}
    mixtures = {"en-de": 0.1, "en-de+en-fr": 0.2, "en-fr+en-ar+en-es": 0.3}
    warehouse.build(
        metrics=[
            *({**of_pair, "trained_on": name, "value": value} for name, value in mixtures.items()),
            {**STS, "evaluated_on": "en-it", "trained_on": "en-fr"},
        ]
    )
    rows = measured(warehouse, "distinct column_label, trained_on, measured, is_zero_shot")
    assert rows == [("en_de", "en-de+en-fr", 0.2, False), ("en_it", "en-fr", 0.5, True)]


def test_a_partial_average_is_not_shown(warehouse):
    rows = [{**TATOEBA, "evaluated_on": f"en-{language}"} for language in TATOEBA_14]
    warehouse.build(metrics=rows[:3])
    (row,) = warehouse.ask("from oracle_table3 where printed_as = 'LaBSE+DREAM' and embedding = 'meaning'")
    assert row["tatoeba_14_en_xx_measured"] is None
    assert "tatoeba_14_en_xx: 3 of 14 parts measured, mean 0.500" in row["why_missing"]
    averages = "select languages, of_languages from tatoeba_averages where set_name = 'Tatoeba-14'"
    assert warehouse.rows(averages) == [(3, 14)]
    warehouse.build(metrics=rows)
    (row,) = warehouse.ask("from oracle_table3 where printed_as = 'LaBSE+DREAM' and embedding = 'meaning'")
    assert row["tatoeba_14_en_xx_measured"] == pytest.approx(0.5)


def test_tatoeba_cells_average_both_directions(warehouse):
    back = {**TATOEBA, "evaluated_on": "de-en", "value": 0.9}
    warehouse.build(metrics=[{**TATOEBA, "evaluated_on": "en-de", "value": 0.7}, back])
    rows = warehouse.ask("select distinct en_de_measured from oracle_table9 where method = 'dream' and dataset <> ''")
    assert rows == [{"en_de_measured": pytest.approx(0.8)}]


def test_changes_are_relative_to_the_encoder_in_the_row_of_the_language_of_the_labels(warehouse):
    emu = {**INTENTS, "method": "emu_no_discriminator"}
    warehouse.build(metrics=[{**emu, "value": 0.6}, {**INTENTS, **RAW, "value": 0.5}])
    (row,) = warehouse.ask("from emu_table3 where row_label = 'en'")
    assert (row["en_de_published"], row["en_de_measured"]) == (0.400, pytest.approx(0.2))
    (row,) = warehouse.ask("from emu_table4 where row_label = 'en'")
    assert row["de_measured"] == pytest.approx(0.2)
    assert warehouse.ask("from emu_table3 where row_label = 'de' and dataset <> ''") == []
    emu = {**INTENTS, "method": "german"}
    settings = configured("german", "emu_no_discriminator", training_languages=["de"])
    warehouse.build(metrics=[emu, {**INTENTS, **RAW}], configured_methods=[settings])
    rows = warehouse.ask("select row_label from emu_table3 where en_de_measured is not null")
    assert rows == [{"row_label": "de"}]


def test_deviations_are_over_seeds(warehouse):
    seeds = [{**SLOTS, "method": "few", "seed": seed, "value": value} for seed, value in ((0, 0.4), (1, 0.6))]
    methods = [configured("few", "twosl", examples=100, negatives_per_positive=2)]
    warehouse.build(metrics=[*seeds, {**SLOTS, "method": "few"}], configured_methods=methods)
    rows = warehouse.ask("select de_published, de_measured from twosl_table9 where de_measured is not null")
    assert rows == [{"de_published": 0.0296, "de_measured": pytest.approx(0.2 / 2**0.5)}]


def test_the_paper_trains_english_rows_of_table_9_on_each_pair(warehouse):
    template = {"task": "template_retrieval", "embedding": "template", "method": "fmda", **NO_INTERVAL}
    pairs = {"en-de": 0.4, "en-es": 0.5, "en-ja": 0.9, "en-de+en-es": 0.7}
    warehouse.build(
        metrics=[{**template, "evaluated_on": "en", "trained_on": on, "value": value} for on, value in pairs.items()]
    )
    (row,) = warehouse.ask("from fmda_table9 where row_label = 'en' and encoder is not null")
    assert (row["fmda_dual_measured"], row["fmda_multi_measured"]) == (pytest.approx(0.6), 0.7)


def test_figures_with_the_encoder_and_data_of_the_paper_are_comparable(warehouse):
    qe = {"task": "qe", "metric": "pearson", **NO_INTERVAL}
    are = {("labse", "mlqe"): True, ("LaBSE-cls", "wmt20_qe"): True, ("labse", "o"): False, ("minilm", "mlqe"): False}
    warehouse.build(metrics=[{**qe, "encoder": encoder, "dataset": dataset} for encoder, dataset in are])
    where = "measured is not null and printed_as = 'DREAM-LaBSE' and \"table\" = 'T2'"
    assert {row[:2]: row[2] for row in measured(warehouse, "encoder, dataset, comparable", where)} == are
    assert warehouse.rows("select sum(comparable) from coverage") == [(1,)]  # cell


def test_paper_cells_use_only_test_figures_with_the_gold_of_the_paper(warehouse):
    qe = {"task": "qe", "metric": "pearson", **NO_INTERVAL}
    dev = {**qe, "settings": '{"split": "dev"}', "value": 0.9}
    mean = {**qe, "settings": '{"gold": "mean"}', "value": 0.8}
    warehouse.build(metrics=[{**qe, "settings": '{"gold": "z_mean", "split": "test"}'}, dev, mean])
    assert measured(warehouse, "distinct measured") == [(0.5,)]


def test_a_new_table_of_a_paper_is_its_figures_and_one_row(warehouse, sql_copy):
    cell = 'sts,sts2017,dream,labse,en-de,en-fr,meaning,pearson,0.5,,"{""model"": ""NEW""}",new,T7,\n'
    header = (sql_copy / "published/figures/fmda.csv").read_text().split("\n")[0]
    (sql_copy / "published/figures/new.csv").write_text(f"{header}\n{cell}")
    with (sql_copy / "published/paper_tables.csv").open("a") as tables:
        tables.write('new,T7,Similarity,true,true,correlation,en_fr,"printed_as, method, embedding",method\n')
    warehouse.build(sql_copy, metrics=[{**STS, "evaluated_on": "en-fr", "value": 0.75}])
    shown = warehouse.rows(
        "select printed_as, en_fr_published, en_fr_measured from new_table7 where dataset is not null"
    )
    assert shown == [("NEW", 0.5, 0.75)]


# --- tables of FMDA ---------------------------------------------------------------------------------------


def test_measured_and_published_figures_are_shown_side_by_side_per_encoder(warehouse):
    fmda = {"method": "fmda"}
    warehouse.build(metrics=[fmda, {**fmda, "encoder": "xlmr", "value": 0.6}, RAW, {"method": "my_fmda"}])
    rows = warehouse.rows("""
        select method, published, measured, difference, published_encoder, measured_encoder
        from published_vs_measured where measured is not null and "table" = 'T2' order by method, measured
    """)
    assert rows == [
        ("fmda", 0.594, 0.5, -0.094, "xlm_roberta_base", "minilm"),
        ("fmda", 0.594, 0.6, 0.006, "xlm_roberta_base", "xlmr"),
        ("raw", 0.182, 0.5, 0.318, "xlm_roberta_base", "minilm"),
    ]
    cells = "method, encoder, en_de_published, en_de_measured, en_de_difference, de_en_published"
    assert warehouse.rows(f"select {cells} from fmda_table2 where encoder is not null and method != 'raw'") == [
        ("fmda", "minilm", 0.594, 0.5, -0.094, 0.605),
        ("my_fmda", "minilm", None, 0.5, None, None),
        ("fmda", "xlmr", 0.594, 0.6, 0.006, 0.605),
    ]


OUTCOMES = {
    (0.7, 0.6, 0.8): "above",
    (0.6, 0.59, 0.7): "within",
    (0.5, 0.4, 0.594): "within",
    (0.5, 0.4, 0.59): "below",
    (0.5, None, None): None,
}


def test_a_published_figure_is_reached_if_our_interval_has_it_or_lies_above(warehouse):
    metrics = [
        {"method": "fmda", "encoder": f"encoder_{number}", "value": value, "ci_low": low, "ci_high": high}
        for number, (value, low, high) in enumerate(OUTCOMES)
    ]
    warehouse.build(metrics=metrics)
    of_table = """from published_vs_measured where measured is not null and "table" = 'T2'"""
    rows = warehouse.rows(f"select published, measured, ci_low, ci_high, outcome {of_table} order by measured_encoder")
    assert rows == [(0.594, *interval, outcome) for interval, outcome in OUTCOMES.items()]


def test_mixture_models_have_a_separate_row_and_other_pairs_are_not_compared(warehouse):
    unified = {"method": "fmda_unified", "trained_on": "en-de+en-es"}
    warehouse.build(metrics=[{"method": "fmda", "trained_on": "en-es"}, unified])
    assert warehouse.ask("from published_vs_measured where measured is not null and method = 'fmda'") == []
    assert warehouse.ask("from fmda_table2 where encoder is not null and method = 'fmda'") == []
    (row,) = warehouse.ask("select * from fmda_table2 where method = 'fmda_unified'")
    assert (row["training"], row["en_de_measured"], row["en_de_published"]) == ("en-de+en-es", 0.5, None)


def test_the_untrained_encoder_fills_every_training_pair_of_fmda_table_3(warehouse):
    warehouse.build(metrics=[{**RAW, "task": "template_retrieval", "evaluated_on": "en"}])
    (row,) = warehouse.ask("select * from fmda_table3 where method = 'raw'")
    assert [row[f"{pair}_on_en_measured"] for pair in ("en_de", "en_es", "en_ja")] == [0.5, 0.5, 0.5]
    assert row["en_de_on_de_measured"] is None

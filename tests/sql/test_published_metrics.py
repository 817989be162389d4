"""All printed figures are there, in the project's vocabulary."""

import json
import re

import pytest

from disent_core import methods

CELLS = {
    "fmda": {"T2": 30, "T3": 30, "T4": 16, "T5": 16, "T6": 30, "T9": 21},
    "dream": {"T2": 98, "T4": 96, "T5": 48, "T6": 9},
    "twosl": {
        **{"T2": 143, "T3": 9, "T4": 24, "T5": 96, "T8": 90, "T9": 66, "T10": 132},
        **{"text §1": 6, "text §5": 4, "text §5.1": 7},
    },
    "oracle": {"T3": 96, "T4": 18, "T8": 351, "T9": 330, "T10": 297, "T11": 243, "text": 12},
    "emu": {"T2a": 99, "T2b": 99, "T2c": 99, "T3": 63, "T4": 36, "T5": 6},
}
OF_OTHERS = {
    *("laser", "prism", "d_tp", "d_lex_sim", "predictor_estimator", "multilingual_sbert", "bgt"),
    *("muse", "criss", "dueam", "mt_sent2vec"),
}


def test_every_cell_of_every_table_is_there(published):
    counted = published.ask('select paper, "table" as t, count(*) as cells from published_metrics group by all')
    counts = {paper: {row["t"]: row["cells"] for row in counted if row["paper"] == paper} for paper in CELLS}
    assert counts == CELLS
    assert sum(row["cells"] for row in counted) == 2720


def test_only_dashes_of_the_papers_are_missing_values(published):
    missing = published.ask("select note from published_metrics where value is null")
    assert len(missing) == 25
    assert all(row["note"] for row in missing)


def test_methods_embeddings_metrics_and_languages_are_those_of_the_vocabulary(published):
    columns = ("method", "embedding", "metric", "evaluated_on")
    values = {
        name: {row[0] for row in published.rows(f"select distinct {name} from published_metrics")} for name in columns
    }
    ours = {row["method"] for row in published.ask("select method from methods")}
    assert {name.split("-")[0] for name in values["method"]} <= ours | OF_OTHERS
    assert values["embedding"] == {"sentence", "meaning", "template", "residual", "language"}
    changes = {"accuracy_at_1_relative_change", "accuracy_at_1_drop", "micro_f1_difference", "micro_f1_std"}
    assert values["metric"] == {"accuracy_at_1", "map", "pearson", "spearman", "micro_f1", "silhouette"} | changes
    language = r"[a-z]{2,3}"
    name_pattern = rf"(average|de-st|{language}|{language}-{language}(\+{language}-{language})?)"
    assert [name for name in values["evaluated_on"] if not re.fullmatch(name_pattern, name)] == []


def test_printed_percentages_are_kept(published):
    rows = published.ask("select value, settings from published_metrics where settings ->> 'printed' <> ''")
    assert len(rows) > 2000
    for row in rows:
        assert row["value"] == pytest.approx(float(json.loads(row["settings"])["printed"]) / 100, abs=1e-12)


def test_the_method_vocabulary_is_the_registry_plus_published_variants(published):
    named = {row["method"]: row["is_trained"] for row in published.ask("select method, is_trained from parts.methods")}
    for name in methods.METHODS:
        assert named[name] == methods.method(name).is_trained, name
    assert named.keys() - methods.METHODS.keys() == {"fmda_unified", *methods.ALIASES}  # the first is FMDA on a mixture

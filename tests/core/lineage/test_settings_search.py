"""A search of settings: which trials a configuration has, and which of them is chosen."""

import json

import pyarrow as pa
import pytest
import worlds

from disent_core.errors import ConfigError, TableError
from disent_core.lineage.evaluation_inputs import TABLES
from disent_core.lineage.settings_search import refresh_settings_search
from disent_core.lineage.steps import steps
from disent_core.lineage.workspace import Workspace, settings_search_key
from disent_core.storage.tables import SCHEMAS, read_table, refresh_table, write_table

GOOD = (
    worlds.corpus("one", languages=["en-US", "de-DE"])
    + worlds.encoder()
    + worlds.experiment("raw", "cca", "lexicon")
    + worlds.section("evaluation", split="dev")
    + worlds.section("methods.lexicon", epochs=4)
    + worlds.section("settings_search", methods=["cca", "lexicon"], trials=4)
    + worlds.section("settings_search.trials_of", cca=2)
)
MISTAKES = {
    "test": ('split = "dev"', 'split = "test"', "settings are chosen on dev"),
    "a method of no experiment": ('methods = ["cca", "lexicon"]', 'methods = ["cca", "dream"]', "not a method of the"),
    "a method without values": ('methods = ["cca", "lexicon"]', 'methods = ["cca", "raw"]', "no values to search"),
    "trials of a method that is not searched": ("cca = 2", "raw = 2", "'raw' is not among the methods"),
}


def trials(config) -> dict[str, object]:
    return {name: method.settings for name, method in config.methods.items() if method.trial}


def test_each_method_has_its_number_of_trials_each_with_values_of_its_space(load):
    config = load(GOOD)
    assert [*trials(config)] == ["cca_trial_1", *(f"lexicon_trial_{number}" for number in (1, 2, 3))]
    assert config.experiment.methods == ("raw", "cca", "lexicon", *trials(config))
    for name, settings in trials(config).items():
        space = config.methods[name].method.space
        assert all(getattr(settings, key) in values for key, values in space.items())


def test_more_trials_keep_earlier_ones_and_another_seed_changes_them(load):
    few, many = trials(load(GOOD)), trials(load(GOOD.replace("trials = 4", "trials = 8")))
    assert {name: many[name] for name in few} == few
    assert len({repr(settings) for settings in many.values()}) > 6
    assert trials(load(GOOD)) != trials(load(GOOD.replace("trials = 4", "trials = 4\nseed = 1")))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_invalid_settings_search_is_refused(load, mistake):
    good, bad, message = MISTAKES[mistake]
    with pytest.raises(ConfigError, match=message):
        load(GOOD.replace(good, bad))


def metric(method: str, task: str, on: str, value: float) -> dict[str, object]:
    return worlds.METRIC | {
        "task": task, "method": method, "encoder": "toy", "trained_on": "en-de", "evaluated_on": on,
        "embedding": "sentence" if method.startswith("cca") else "meaning", "metric": "accuracy_at_1", "value": value,
        "settings": "{}", "seed": None,
    }  # fmt: skip


def write_metrics(workspace: Workspace, method: str, rows: list[dict[str, object]]) -> None:
    path = workspace.table("evaluation", TABLES[-1], "toy", method, "en-de")
    refresh_table(path, SCHEMAS["metrics"], inputs=method, make=lambda: pa.Table.from_pylist(rows, SCHEMAS["metrics"]))


def test_the_best_mean_of_translations_and_templates_is_chosen(load, tmp_path):
    workspace = Workspace(load(GOOD), tmp_path / "home")
    values = {"cca": 0.5, "cca_trial_1": 0.5, "lexicon": 0.2}
    values |= {f"lexicon_trial_{number}": value for number, value in ((1, 0.4), (2, 0.3), (3, 0.1))}
    for method, value in values.items():
        of_tasks = {("crosslingual_retrieval", "en-de"): value, ("crosslingual_retrieval", "de-en"): value + 0.2,
                    ("template_retrieval", "en"): value + 0.5, ("template_retrieval", "de"): value + 0.5}  # fmt: skip
        write_metrics(workspace, method, [metric(method, *name, number) for name, number in of_tasks.items()])
    assert all(outcome.passed for outcome in refresh_settings_search(workspace, "toy").checks)
    path = workspace.table("evaluation", "settings_search", "toy")
    rows = read_table(path, SCHEMAS["settings_search"]).to_pylist()
    assert [row["name"] for row in rows if row["is_chosen"]] == ["cca", "lexicon_trial_1"]  # of equal ones the first
    best = next(row for row in rows if row["name"] == "lexicon_trial_1")
    scores = {key: best[key] for key in ("translation", "template", "score")}
    assert scores == pytest.approx({"translation": 0.5, "template": 0.9, "score": 0.7})
    assert json.loads(rows[1]["settings"]) == {"epochs": 4}
    bad = pa.Table.from_pylist([row | {"is_chosen": row["name"] == "cca"} for row in rows], SCHEMAS["settings_search"])
    write_table(path, bad, SCHEMAS["settings_search"], inputs=rows[0]["fingerprint"])
    outcomes = {outcome.check.name: outcome.passed for outcome in refresh_settings_search(workspace, "toy").checks}
    assert outcomes == {"rows_are_unique": True, "one_trial_of_each_method_is_chosen": False}


def test_the_error_of_missing_decision_figures_names_the_needed_table(load, tmp_path):
    workspace = Workspace(load(GOOD), tmp_path / "home")
    for method in ("cca", "cca_trial_1", "lexicon", *(f"lexicon_trial_{number}" for number in (1, 2, 3))):
        rows = [metric(method, "crosslingual_retrieval", on, 0.5) for on in ("en-de", "de-en")]
        write_metrics(workspace, method, rows)
    with pytest.raises(TableError, match=r"cca has no figure for template on dev; .*targets.template_pairs"):
        refresh_settings_search(workspace, "toy")


def test_only_an_encoder_with_trials_has_a_settings_search_step(load, tmp_path):
    keys = [
        {output.key for step in steps(Workspace(load(text), tmp_path)) for output in step.made}
        for text in (GOOD, GOOD.partition("[settings_search]")[0])
    ]
    assert [settings_search_key("toy") in of_config for of_config in keys] == [True, False]

"""One changed line of one corpus file: just what depends on it is made again."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from projects import Project

from disent_core.storage.tables import content_of

pytestmark = pytest.mark.end_to_end

UNTOUCHED = {"en", "ja", "en-ja"}
METRICS = "method, evaluated_on, trained_on, task, embedding, metric, seed, value, ci_low, ci_high, n"


@dataclass(frozen=True)
class State:
    """What there was at one time."""

    results: dict[str, str]
    weights: dict[str, str]
    metrics: list[dict]
    status: str
    counts: dict[str, int]


def state(project: Project, counts: dict[str, int]) -> State:
    metrics = project.ask(f"select {METRICS} from metrics order by all")
    return State(project.results(), project.weights(), metrics, project.disent("status").stdout, counts)


@dataclass(frozen=True)
class Edit:
    """A changed training utterance of `de`, and its way back."""

    before: State
    status_after_edit: str
    stale_before_training: set[str]
    after: State
    restored: State


HEADS = {f"heads/tiny/{name}_head [en-de]" for name in ("dream", "fmda", "fmda_softmax")}
METRICS_OF = {f"evaluation/tiny/{name}_metrics [en-de]" for name in ("raw", "dream", "fmda", "fmda_softmax")}
GATES = "+key:*_training_data or +key:*_evaluation_sets"


def stale_of_methods(project: Project) -> set[str]:
    assert [project.disent("status", *more).exit_code for more in ((), ("--check",))] == [0, 1]
    rows = json.loads(project.disent("status", "--format", "json").stdout)
    stale = {f"{row['asset']} [{row['partition']}]" for row in rows if row["state"] == "stale"}
    return {name for name in stale if name.startswith(("heads/", "evaluation/"))}


@pytest.fixture(scope="module")
def edit(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Edit:
    project = finished.copy(tmp_path_factory.mktemp("edit"))
    before, original = state(project, {}), project.file("de-DE").read_bytes()
    project.change_word("de-DE")
    status = project.disent("status").stdout
    counts, stale = project.materialize(GATES), stale_of_methods(project)
    project.materialize()
    after = state(project, counts)
    project.file("de-DE").write_bytes(original)
    return Edit(before, status, stale, after, state(project, project.materialize()))


def parts(path: str) -> set[str]:
    return {*Path(path).parts, Path(path).name.split(".")[0]}


def changed(before: State, after: State) -> set[str]:
    return {path for path, digest in after.results.items() if before.results.get(path) != digest}


def test_status_names_the_changed_file_and_no_other_language(edit):
    lines = edit.status_after_edit.splitlines()
    cause = "stale   corpora/utterances [de]  <- corpora/published_files [de]: its content has changed"
    assert cause in lines
    stale = [line.split("  <- ")[0] for line in lines if line.startswith("stale")]
    assert [line for line in stale if line.endswith(("[en]", "[ja]", "[en-ja]"))] == []
    depending = re.search(r"^(\d+) of the fresh ones depend on these", edit.status_after_edit, re.MULTILINE)
    assert depending
    assert int(depending[1]) > 15


def test_only_dependents_of_the_changed_utterance_are_rebuilt(edit):
    new = changed(edit.before, edit.after)
    assert 1 <= edit.after.counts["encoded"] <= 3
    others = {path for path in edit.before.results if parts(path) & UNTOUCHED or path.startswith("encoders/")}
    assert len(others) > 30
    assert others & new == set()
    for table in ("corpora/utterances/sample/de", "targets/masked_utterances/sample/de", "targets/aligned_pairs/en-de"):
        assert f"tables/{table}.parquet" in new
    for method in ("dream", "fmda", "fmda_softmax"):
        assert edit.before.weights[f"tiny/{method}/en-de"] != edit.after.weights[f"tiny/{method}/en-de"]
        assert f"tables/evaluation/metrics/tiny/{method}/en-de.parquet" in new
    assert "warehouse.duckdb" in new
    assert edit.after.status.endswith(" fresh, 0 stale, 0 missing\n")


def test_a_reverted_change_encodes_nothing_and_restores_weights_and_metrics(edit):
    assert edit.restored.counts["encoded"] == 0
    assert edit.restored.weights == edit.before.weights
    assert edit.restored.metrics == edit.before.metrics


def test_an_edit_of_train_makes_only_dependent_heads_and_metrics_stale(edit):
    assert edit.stale_before_training == HEADS | METRICS_OF


def test_an_edit_of_test_trains_nothing_and_marks_metrics_stale_until_refresh(copied):
    weights = copied.weights()
    copied.change_word("de-DE", split="test")
    assert copied.materialize(GATES)["encoded"] >= 1
    assert stale_of_methods(copied) == METRICS_OF
    assert copied.materialize("+group:evaluation_tiny")["steps"] == 0
    assert copied.weights() == weights
    assert copied.ask("select distinct is_stale from metrics") == [{"is_stale": True}]
    assert "stale: " in copied.disent("leaderboard").stdout
    copied.materialize()
    assert copied.ask("from metrics where is_stale") == []
    (run,) = copied.ask("select changed_count as n from runs where refresh = 2")
    assert run["n"] > 0
    assert copied.ask("select count(*) as n from metrics where refresh = 2") == [run]


def test_building_on_a_stale_unselected_table_warns(copied):
    copied.change_word("de-DE", split="test")
    done = copied.disent("materialize", "key:heads/*", "key:heads/tiny/raw_head", "--partition", "en-de")
    warning = done.stderr.splitlines()[-1]
    assert warning.startswith("may be out of date: corpora/utterances [de] is stale and not selected")
    assert warning.endswith("disent materialize '+key:heads/*' +key:heads/tiny/raw_head --partition en-de")
    assert "out of date" not in copied.disent("materialize", "corpora", "--partition", "de").stderr


def test_another_seed_trains_again_and_encodes_nothing_and_a_setting_of_one_method_trains_that_alone(copied):
    copied.configure("seeds = [0, 1]", "seeds = [0, 2]")
    counts = copied.materialize("+key:heads/*", "--partition", "en-ja")
    assert counts["encoded"] == 0
    assert counts["steps"] > 0
    before = copied.weights()
    copied.configure("[methods.dream]\nmax_epochs = 6", "[methods.dream]\nmax_epochs = 7")
    assert "stale   heads/tiny/dream_head [en-ja]" in copied.disent("status").stdout
    copied.materialize("key:heads/*", "--partition", "en-ja")
    after = copied.weights()
    assert {name for name in after if before[name] != after[name]} == {"tiny/dream/en-ja"}


def test_whitespace_in_a_corpus_file_changes_no_table(copied):
    copied.file("de-DE").write_bytes(copied.file("de-DE").read_bytes() + b"\n\n")
    path = copied.home / "tables" / "corpora" / "utterances" / "sample" / "de.parquet"
    before = content_of(path)
    copied.materialize("key:corpora/utterances", "--partition", "de")
    assert content_of(path) == before
    assert copied.materialize("group:targets or key:heads/*", "--partition", "en-de")["made"] == 0

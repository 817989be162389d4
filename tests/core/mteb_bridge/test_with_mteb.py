"""What mteb measures equals what disent measures on the same vectors; `make mteb-test` installs mteb for this."""

import json
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from mteb_models import GivenModel
from task_inputs import CONFIG, pair_inputs, problems, switched_inputs, template_inputs, utterance_inputs, utterances
from worlds import utterance

from disent_core.evaluation.mteb_results import read_results, result_files, twin_of
from disent_core.mteb_bridge import run as official
from disent_core.mteb_bridge.encoder import DisentEncoder
from disent_core.mteb_bridge.run import evaluate
from disent_core.mteb_bridge.tasks import own_tasks
from disent_core.storage.tables import rows_table

mteb = pytest.importorskip("mteb", reason="mteb is not installed: make mteb-test")

PAIRS = {str(row): (f"satz {row}", f"sentence {row}", {"score": row * 5 / 39}) for row in range(40)}


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch):
    """Nothing is asked for, not even of this machine."""

    def refuse(*_):
        raise OSError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def official_data(monkeypatch):
    """Official statistics are those of 40 pairs."""
    monkeypatch.setattr(official, "official_size", lambda *_: (80, sum(len(a + b) for a, b, _ in PAIRS.values())))


def tatoeba(**more):
    inputs = pair_inputs(("de", "en"), {name: pair[:2] for name, pair in PAIRS.items()}, "translations")
    return problems("tatoeba_retrieval", inputs, **more)


def sts():
    return problems("sts", pair_inputs(("en", "de"), PAIRS, "similarity"))


def templates():
    targets = {str(source): (f"quelle {source}", [f"ziel {source} {n}" for n in range(5)]) for source in range(12)}
    inputs = template_inputs(targets, "de")
    return problems("template_retrieval", inputs) + problems("multi_target_template_retrieval", inputs)


def switched():
    rows = {str(row): (f"satz number {row}", f"sentence {row}", 3, ["nummer"]) for row in range(20)}
    return problems("code_switched_retrieval", switched_inputs(rows))


def in_both_languages():
    def table(language, prefix):
        return pa.concat_tables(
            utterances(language, {f"{split} {row}": ("a", f"{prefix} {split} {row}") for row in range(30)}, split)
            for split in ("dev", "test")
        )

    return utterance_inputs({"en": table("en", "say"), "de": table("de", "sag")})


def language_leak():
    return problems("language_leakage", in_both_languages()) + problems("language_identification", in_both_languages())


def crosslingual():
    return problems("crosslingual_retrieval", in_both_languages())


def measured(problem, model, embedding):
    return {measurement.metric: measurement.value for measurement in problem.score(model.matrices(problem, embedding))}


def by_mteb(tasks, model, embedding, folder):
    results = evaluate(DisentEncoder(model, embedding), tasks, folder)
    return {(r.task_name, s["hf_subset"]): s for r in results for scores in r.scores.values() for s in scores}


@pytest.mark.parametrize("embedding", ["meaning", "language"])
@pytest.mark.parametrize("languages", [None, ("de", "en")])
def test_official_tatoeba_and_sts17_scores_equal_disent_scores(official_data, tmp_path, embedding, languages):
    model, ours = GivenModel(languages), [*tatoeba(), *sts()]
    tasks, others = official.pair_tasks(ours)
    scores = by_mteb(tasks, model, embedding, tmp_path)
    assert set(scores) == {("Tatoeba", "deu-eng"), ("STS17", "en-de")}
    assert [problem.evaluated_on for problem in others] == ["en-de"]  # of Tatoeba, which mteb has in one direction
    accuracy = measured(ours[0], model, embedding)["accuracy_at_1"]
    assert scores["Tatoeba", "deu-eng"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    correlations = measured(ours[2], model, embedding)
    for theirs, name in twin_of("STS17", is_ours=True).metrics.items():
        assert scores["STS17", "en-de"][theirs] == pytest.approx(correlations[name], abs=1e-6)


@pytest.mark.parametrize("languages", [None, ("de", "en")])
@pytest.mark.parametrize("make", [tatoeba, sts, templates, switched, crosslingual, language_leak])
def test_disent_tasks_run_by_mteb_equal_disent_scores(tmp_path, make, languages):
    model, ours = GivenModel(languages), make()
    assert ours
    scores = by_mteb(own_tasks(ours), model, "meaning", tmp_path)
    compared = 0
    for problem in (problem for problem in ours if problem.applies_to("meaning")):
        name = f"Disent{''.join(word.capitalize() for word in problem.task.split('_'))}"
        figures, theirs = measured(problem, model, "meaning"), scores[name, f"toy:{problem.evaluated_on}"]
        for key, metric in twin_of(name, is_ours=True).metrics.items():
            if key in theirs and metric in figures:
                assert theirs[key] == pytest.approx(
                    figures[metric], abs=1e-6 if "retrieval" not in problem.task else 1e-5
                )
                compared += 1
        if "map" in figures:  # of a pool of less than 1,000 candidates
            assert theirs["map_at_1000"] == pytest.approx(figures["map"], abs=1e-5)
            compared += 1
    assert compared


@pytest.mark.parametrize(("samples", "characters"), [(78, 0), (80, 100), (80, -100)])
def test_modified_data_get_no_official_task_name(monkeypatch, samples, characters):
    size = sum(len(a + b) for a, b, _ in PAIRS.values())
    monkeypatch.setattr(official, "official_size", lambda *_: (samples, size + characters))
    ours = [*tatoeba(), *sts()]
    assert official.pair_tasks(ours) == ([], ours)


def test_official_statistics_are_those_of_mteb():
    assert official.official_size("Tatoeba", "deu-eng", "test") == (2000, 104_754)
    assert official.official_size("STS17", "en-en", "test") == (500, 21_669)
    assert official.official_size("MassiveIntentClassification", "de", "train") == (11_514, 455_798)


def test_massive_is_official_with_intents_and_scenarios_as_labels(monkeypatch, tmp_path):
    rows = [
        utterance("de", f"{split}{row}", f"{split} {row}", split=split, domain="abc"[row % 3], intent="wxyz"[row % 4])
        for split in ("train", "dev", "test")
        for row in range(12)
    ]
    table = rows_table(rows, "utterances")
    assert official.massive_tasks({"de-DE": ("de", table)}) == []
    monkeypatch.setattr(official, "official_size", lambda *_: (12, 74))
    tasks = official.massive_tasks({"de-DE": ("de", table), "tlh": ("tlh", table)})
    assert [(task.metadata.name, task.hf_subsets) for task in tasks] == [(name, ["de"]) for name in official.MASSIVE]
    assert set(tasks[1].dataset["de"]["validation"]["label"]) == {"a", "b", "c"}
    scores = by_mteb(tasks, GivenModel(("de",)), "meaning", tmp_path)
    assert set(scores) == {(name, "de") for name in official.MASSIVE}


def test_a_task_is_skipped_for_embeddings_it_does_not_apply_to(tmp_path):
    scores = by_mteb(own_tasks(language_leak()), GivenModel(), "language", tmp_path)
    assert set(scores) == {("DisentLanguageIdentification", "toy:en-de")}


def test_hubness_corrections_and_skipped_candidates_give_no_mteb_tasks(official_data):
    corrected = tatoeba(config=replace(CONFIG, hubness=("none", "csls")))
    assert len(corrected) == 4
    assert [task.hf_subsets for task in own_tasks(corrected)] == [["toy:de-en", "toy:en-de"]]
    _, others = official.pair_tasks(corrected)
    assert [task.hf_subsets for task in own_tasks(others)] == [["toy:en-de"]]  # Tatoeba has the other direction
    assert own_tasks([replace(problem, skip=np.zeros(40, int)) for problem in tatoeba()]) == []


def test_results_load_by_mteb_each_embedding_as_an_experiment(tmp_path):
    model, tasks = GivenModel(), own_tasks(tatoeba())
    encoders = [DisentEncoder(model, name) for name in model.embeddings]
    for encoder in encoders:
        list(evaluate(encoder, tasks, tmp_path))
    place = tmp_path / "results" / "disent__dream-tiny-en-de" / "0123456789ab" / "experiments"
    assert {path.name for path in place.iterdir()} == {"embedding_meaning", "embedding_language"}
    for encoder in encoders:
        loaded = mteb.ResultCache(tmp_path).load_results(models=[encoder.mteb_model_meta], tasks=tasks)
        (result,) = loaded.model_results
        assert [task.task_name for task in result.task_results] == ["DisentTatoebaRetrieval"]


def test_mteb_result_files_are_read_back(tmp_path):
    model, (problem, _) = GivenModel(), tatoeba()
    list(evaluate(DisentEncoder(model, "language"), own_tasks([problem]), tmp_path))
    rows = [row for path in result_files(tmp_path) for row in read_results(path, "ours")]
    (row,) = [row for row in rows if row["is_same"]]
    of_task = {"task": "tatoeba_retrieval", "dataset": "toy", "evaluated_on": "de-en", "metric": "accuracy_at_1"}
    of_model = {"method": "dream", "encoder": "tiny", "trained_on": "en-de", "embedding": "language"}
    assert (of_task | of_model).items() <= row.items()
    assert row["value"] == pytest.approx(measured(problem, model, "language")["accuracy_at_1"], abs=1e-5)


def test_only_changed_tasks_are_measured_again(tmp_path):
    model = GivenModel()
    list(evaluate(DisentEncoder(model), own_tasks(tatoeba()), tmp_path))
    done = [texts for _, texts in model.calls]
    list(evaluate(DisentEncoder(model), own_tasks(tatoeba()), tmp_path))
    assert [texts for _, texts in model.calls if len(texts) > 1] == done[1:]  # the first call asks for the width
    rows = {name: (source, f"another {target}") for name, (source, target, _) in PAIRS.items()}
    changed = problems("tatoeba_retrieval", pair_inputs(("de", "en"), rows, "translations"))
    list(evaluate(DisentEncoder(model), own_tasks(changed), tmp_path))
    assert any("another sentence 0" in texts for _, texts in model.calls)


def test_every_file_is_json_without_a_path_of_this_machine(tmp_path):
    list(evaluate(DisentEncoder(GivenModel()), own_tasks(tatoeba()), tmp_path))
    files = [path for path in tmp_path.rglob("*.json") if path.is_file()]
    assert files
    for path in files:
        assert json.loads(path.read_text(encoding="utf-8"))
        assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_encoders_satisfy_the_mteb_protocol_and_seeds_are_separate_experiments():
    assert isinstance(DisentEncoder(GivenModel()), mteb.EncoderProtocol)
    assert DisentEncoder(GivenModel(seed=1)).mteb_model_meta.experiment_name == "embedding_meaning__seed_1"


def test_importing_the_bridge_does_not_import_mteb():
    code = "import sys, disent.mteb, disent_core.mteb_bridge.run; print({'mteb', 'datasets'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"

"""Result files of mteb become rows, and a head is as mteb asks for it: mteb is not needed for that."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mteb_models import GivenModel, vector
from worlds import corpus, encoder, experiment, section

from disent_core.errors import TableError
from disent_core.evaluation.mteb_results import read_results, result_files
from disent_core.lineage.mteb_results import refresh_mteb_results
from disent_core.lineage.workspace import Workspace
from disent_core.mteb_bridge.encoder import DisentEncoder, Spoken
from disent_core.storage.tables import SCHEMAS, read_table, rows_table

TATOEBA = {
    "task_name": "Tatoeba",
    "mteb_version": "2.26.24",
    "dataset_revision": "69e8",
    "evaluation_time": 1.5,
    "date": 1_700_000_000.0,
    "scores": {
        "test": [
            {"accuracy": 0.5, "f1": 0.4, "main_score": 0.4, "hf_subset": "deu-eng", "languages": ["deu-Latn"]},
            {"accuracy": 0.25, "f1": float("nan"), "nauc_x": 1.0, "hf_subset": "cmn-eng", "languages": []},
        ]
    },
}  # fmt: skip
OURS = {
    "name": "disent/facet-minilm-en-de",
    "revision": "0123456789ab",
    "experiment_kwargs": {"embedding": "template", "seed": 1},
    "loader_kwargs": {"method": "facet", "encoder": "minilm", "trained_on": "en-de"},
}
CONFIG = (
    corpus("lines", "tatoeba", path=".", pairs=["de-en"], train=True)
    + encoder("tiny")
    + experiment()
    + section("mteb.results", theirs="results")
)


def write(place: Path, result: object, meta: dict | None = None, name: str = "Tatoeba") -> Path:
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}.json"
    path.write_text(result if isinstance(result, str) else json.dumps(result), encoding="utf-8")
    if meta is not None:
        (place / "model_meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return path


def test_equivalent_mteb_metrics_get_disent_names(tmp_path):
    rows = read_results(write(tmp_path / "org__model" / "1", TATOEBA), "theirs")
    metrics = {(row["evaluated_on"], row["mteb_metric"]): (row["metric"], row["is_same"], row["value"]) for row in rows}
    assert metrics == {
        ("de-en", "accuracy"): ("accuracy_at_1", True, 0.5),
        ("de-en", "f1"): ("f1", False, 0.4),
        ("de-en", "main_score"): ("main_score", False, 0.4),
        ("zh-en", "accuracy"): ("accuracy_at_1", True, 0.25),
    }
    assert {(row["task"], row["dataset"], row["split"]) for row in rows} == {("tatoeba_retrieval", "tatoeba", "test")}


@pytest.mark.parametrize(
    ("folder", "meta", "expected"),
    [
        ("org__model/r1", None, ["org/model", "org/model", "", "", "sentence", "r1", "", None]),
        ("disent__facet-minilm-en-de/0123456789ab/experiments/embedding_template", OURS, ["disent/facet-minilm-en-de",
         "facet", "minilm", "en-de", "template", "0123456789ab", "embedding_template", 1]),
    ],
)  # fmt: skip
def test_results_of_disent_heads_have_method_columns_and_others_a_model_name(tmp_path, folder, meta, expected):
    row = read_results(write(tmp_path / folder, TATOEBA, meta), "x")[0]
    names = ("model", "method", "encoder", "trained_on", "embedding", "revision", "experiment", "seed")
    assert [row[name] for name in names] == expected


@pytest.mark.parametrize(("meta", "same"), [(OURS, {"spearman"}), ({"name": "org/model"}, {"cosine_spearman"})])
def test_correlations_use_head_similarity_or_the_cosine_of_other_models(tmp_path, meta, same):
    scores = {"spearman": 0.5, "cosine_spearman": 0.4, "euclidean_spearman": 0.3, "hf_subset": "en-de"}
    result = {**TATOEBA, "task_name": "STS17", "scores": {"test": [scores]}}
    rows = read_results(write(tmp_path / "m" / "1", result, meta, "STS17"), "x")
    assert {row["mteb_metric"] for row in rows if row["is_same"]} == same
    assert {row["metric"] for row in rows if row["is_same"]} == {"spearman"}


def test_an_mteb_task_made_by_disent_has_the_disent_name_and_dataset(tmp_path):
    scores = {"hit_rate_at_1": 0.75, "ndcg_at_10": 0.8, "hf_subset": "massive:de", "languages": ["deu-Latn"]}
    result = {**TATOEBA, "task_name": "DisentMultiTargetTemplateRetrieval", "scores": {"test": [scores]}}
    rows = read_results(write(tmp_path / "m" / "1", result), "ours")
    names = {(row["task"], row["dataset"], row["evaluated_on"]) for row in rows}
    assert names == {("multi_target_template_retrieval", "massive", "de")}
    assert {row["metric"] for row in rows if row["is_same"]} == {"accuracy_at_1"}


def test_an_mteb_task_without_counterpart_keeps_its_name(tmp_path):
    row = read_results(write(tmp_path / "m" / "1", {**TATOEBA, "task_name": "BUCC.v2"}), "x")[0]
    assert (row["task"], row["dataset"], row["metric"], row["is_same"]) == ("BUCC.v2", "BUCC.v2", "accuracy", False)


def test_only_result_files_of_known_tasks_are_read(tmp_path):
    for place in ("a/1", "a/1/experiments/embedding_meaning"):
        for name in ("Tatoeba", "DisentSts", "BUCC.v2", "model_meta"):
            write(tmp_path / "results" / place, "{}", name=name)
    assert [path.stem for path in result_files(tmp_path)] == ["DisentSts", "Tatoeba"] * 2
    assert result_files(tmp_path / "results") == result_files(tmp_path)
    assert {path.stem for path in result_files(tmp_path, ["BUCC.v2"])} == {"DisentSts", "Tatoeba", "BUCC.v2"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "this is not valid JSON"),
        ('{"task_name": "\\ud800"}', "this is not valid JSON"),
        ("[1]", "it is not an object"),
        ({}, "task_name is None"),
        ({"task_name": "x" * 1_001}, ", not a text of at most 1,000 characters"),
        ({"task_name": "Tatoeba", "scores": {"test": [{"hf_subset": "", "f" * 1_001: 1}]}}, "a name in the scores has"),
        ({"task_name": "Tatoeba", "scores": {"test": {}}}, "scores are not lists by split"),
        ({"task_name": "Tatoeba", "scores": {"test": [{"f1": 1}]}}, "scores of 'test' name no hf_subset"),
    ],
)
def test_a_bad_file_is_named_with_the_remedy(tmp_path, content, problem):
    path = write(tmp_path / "m" / "1", content)
    with pytest.raises(TableError) as raised:
        read_results(path, "x")
    assert str(raised.value).startswith(f"{path}: ")
    assert problem in str(raised.value)
    assert str(raised.value).endswith("Copy the file again, or run mteb again")


def test_a_file_of_an_old_mteb_and_a_bad_description_of_the_model_are_named(tmp_path):
    path = write(tmp_path / "m" / "1", {"mteb_dataset_name": "Tatoeba", "test": {}})
    with pytest.raises(TableError, match=r"before version 1\.11\. Convert it: mteb\.results\.TaskResult\.from_disk"):
        read_results(path, "x")
    path = write(tmp_path / "m" / "1", TATOEBA, {"name": "disent/x", "loader_kwargs": [1]})
    with pytest.raises(TableError, match=r"model_meta\.json: experiment_kwargs and loader_kwargs must be objects"):
        read_results(path, "x")
    path = write(tmp_path / "m" / "1", TATOEBA, {"name": "disent/x", "loader_kwargs": {"encoder": ["minilm"]}})
    with pytest.raises(TableError, match=r"model_meta\.json: .* encoder is \['minilm'\], not a text"):
        read_results(path, "x")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    path = write(tmp_path / "m" / "1", TATOEBA)
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(TableError, match="it has more than 67,108,864 bytes"):
        read_results(path, "x")


def test_a_number_beyond_all_floats_and_dates_is_left_out(tmp_path):
    scores = {"accuracy": 10**400, "f1": 0.5, "hf_subset": "deu-eng"}
    rows = read_results(write(tmp_path / "m" / "1", {**TATOEBA, "date": 1e300, "scores": {"test": [scores]}}), "x")
    assert [(row["metric"], row["measured_at"]) for row in rows] == [("f1", None)]
    assert rows_table(rows, "mteb_results").schema.equals(SCHEMAS["mteb_results"])


@pytest.fixture
def workspace(tmp_path, load) -> Workspace:
    (tmp_path / "tatoeba.deu-eng.deu").write_text("Ja.\n", encoding="utf-8")
    (tmp_path / "tatoeba.deu-eng.eng").write_text("Yes.\n", encoding="utf-8")
    return Workspace(load(CONFIG), tmp_path / "home")


def table(workspace: Workspace):
    return read_table(workspace.table("evaluation", "mteb_results", "theirs"), SCHEMAS["mteb_results"])


def test_the_import_is_idempotent_and_results_that_change_are_read_again(workspace, tmp_path):
    path = write(tmp_path / "results" / "org__model" / "1", TATOEBA)
    first, before = refresh_mteb_results(workspace, "theirs"), table(workspace)
    again = refresh_mteb_results(workspace, "theirs")
    assert (first.rows, first.is_reused, again.is_reused, again.content) == (4, False, True, first.content)
    assert table(workspace).equals(before)
    path.write_text(json.dumps({**TATOEBA, "evaluation_time": 2.5}), encoding="utf-8")
    again = refresh_mteb_results(workspace, "theirs")
    assert (again.is_reused, again.content) == (False, first.content)


def test_rows_of_a_deleted_result_file_disappear_and_a_missing_folder_fails(workspace, tmp_path):
    with pytest.raises(TableError, match=r"results: there is no such folder\. Put results of mteb there"):
        refresh_mteb_results(workspace, "theirs")
    write(tmp_path / "results" / "org__model" / "1", TATOEBA)
    other = write(tmp_path / "results" / "org__other" / "1", TATOEBA)
    assert refresh_mteb_results(workspace, "theirs").rows == 8
    other.unlink()
    assert refresh_mteb_results(workspace, "theirs").rows == 4


TEXTS = ["one", "two", "eins"]


def encode(encoder, texts=TEXTS, prompt=None, scripts=(), **spoken):
    metadata = SimpleNamespace(hf_subsets_to_langscripts={"s": list(scripts)})
    if spoken:
        metadata.spoken = {"s": Spoken(**spoken)}
    prompt_type = SimpleNamespace(value=prompt) if prompt else None
    batches = [{"text": texts[:2]}, {"text": texts[2:]}]
    return encoder.encode(batches, task_metadata=metadata, hf_split="test", hf_subset="s", prompt_type=prompt_type)


def test_texts_of_batches_and_of_several_languages_keep_their_rows():
    matrix = encode(DisentEncoder(GivenModel(), "language"))
    assert matrix.dtype == np.float32
    assert np.array_equal(matrix, np.stack([vector(text, "language") for text in TEXTS]).astype(np.float32))
    model = GivenModel(("de", "en"))
    matrix = encode(DisentEncoder(model), columns=[(TEXTS, ["en", "en", "de"])])
    expected = [vector(text, "meaning", language) for text, language in zip(TEXTS, ["en", "en", "de"], strict=True)]
    assert np.array_equal(matrix, np.stack(expected).astype(np.float32))


def test_the_meaning_is_the_default_and_an_embedding_that_the_head_lacks_is_refused():
    model = GivenModel()
    assert DisentEncoder(model).embedding == "meaning"
    with pytest.raises(ValueError, match="no embedding 'template'; choose one of meaning, language"):
        DisentEncoder(model, "template")
    model.embeddings = ()
    with pytest.raises(ValueError, match="tags slots and has no embedding"):
        DisentEncoder(model)


@pytest.mark.parametrize(
    ("prompt", "languages"),
    [
        ("query", {"prompts": {"query": "en", "document": "de"}}),
        (None, {"columns": [(["x"], ["de"]), (TEXTS, ["en"] * 3)]}),
        (None, {"scripts": ["eng-Latn"]}),
    ],
)
def test_a_language_specific_head_gets_the_language_of_the_task(prompt, languages):
    model = GivenModel(("de", "en"))
    encode(DisentEncoder(model), prompt=prompt, **languages)
    assert model.calls[-1] == ("en", TEXTS)


def test_a_language_specific_head_refuses_texts_without_language():
    with pytest.raises(ValueError, match="name the language of the texts"):
        encode(DisentEncoder(GivenModel(("de", "en"))), scripts=["eng-Latn", "deu-Latn"])


def test_similarities_are_cosines_for_any_norms():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(4, 8)), rng.normal(size=(3, 8))
    lengths = [np.linalg.norm(side, axis=1, keepdims=True) for side in (left, right)]
    cosines = (left / lengths[0]) @ (right / lengths[1]).T
    encoder = DisentEncoder(GivenModel())
    assert np.allclose(encoder.similarity(left * 7, right), cosines, atol=1e-6)
    assert np.allclose(encoder.similarity_pairwise(left[:3], right), np.diag(cosines[:3]), atol=1e-6)

"""ONNX graphs of exported folders. That their vectors are those of the head is tested with every folder."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from random_heads import CASES, TEXTS

from disent_core.errors import DamagedError, TrainingError
from disent_core.export.folder import check_folder, export_head
from disent_core.export.onnx_graph import GRAPH, WordSums
from disent_core.export.saved_folder import RECORD, read_record, write_record
from disent_core.export.transformers_folder import load_folder
from disent_core.lineage.saved_heads import open_head
from disent_core.methods.modules.word_rows import word_rows

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("sentence_transformers")


def exported(case: str, folder: Path, seed: int = 4) -> Path:
    head = open_head(CASES[case](folder), device="cpu")
    return export_head(head, folder / "out", seed=seed, onnx=True).folder


@pytest.fixture(scope="module")
def facet(tmp_path_factory) -> Path:
    """A folder of facet, which reads tokens and words; tests only read it."""
    return exported("facet", tmp_path_factory.mktemp("facet"))


def test_a_graph_has_an_output_for_every_embedding_and_without_an_encoder_no_input_but_words(facet, tmp_path):
    session = onnxruntime.InferenceSession(facet / GRAPH, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["meaning", "template", "residual", "language"]
    shapes = {"input_ids": ["texts", "tokens"], "attention_mask": ["texts", "tokens"], "word_rows": ["texts", "rows"]}
    assert {source.name: source.shape for source in session.get_inputs()} == shapes
    session = onnxruntime.InferenceSession(exported("lexicon", tmp_path) / GRAPH, providers=["CPUExecutionProvider"])
    assert [source.name for source in session.get_inputs()] == ["word_rows"]


def test_a_graph_alone_says_which_steps_are_outside_of_it(facet):
    session = onnxruntime.InferenceSession(facet / GRAPH, providers=["CPUExecutionProvider"])
    outside = session.get_modelmeta().custom_metadata_map["preprocessing"]
    assert "at most 32 tokens" in outside
    assert "word_rows.py" in outside


def test_the_lines_of_the_card_run_a_graph(facet, monkeypatch, tmp_path):
    code = re.search(r"```python\n(import onnxruntime.*?)```", (facet / "README.md").read_text(), re.DOTALL)[1]
    copy = Path(shutil.copytree(facet, tmp_path / "facet-en-de"))  # no name of a package
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    code = code.replace("FOLDER", str(copy))
    *lines, last = code.strip().splitlines()
    names = {"texts": TEXTS}
    exec("\n".join([*lines, f"found = {last}"]), names)
    own = load_folder(facet).encode(TEXTS, task="meaning")
    np.testing.assert_allclose(names["found"][0], own, atol=1e-6)


def test_word_sums_of_a_graph_are_those_of_the_head(facet):
    head = load_folder(facet)[1].sub_modules["meaning"][-2]
    features = load_folder(facet)[0].preprocess(TEXTS)
    own, rows = head._words(features), torch.from_numpy(word_rows(TEXTS))
    torch.testing.assert_close(WordSums(head)(rows), own, rtol=0, atol=1e-6)
    assert (rows == -1).any()


def test_a_graph_is_part_of_a_check(facet, tmp_path, monkeypatch):
    assert check_folder(facet).graph is True
    copy = Path(shutil.copytree(facet, tmp_path / "copy"))
    shutil.copyfile(exported("facet", tmp_path, seed=3) / GRAPH, copy / GRAPH)
    with pytest.raises(DamagedError, match=rf"{GRAPH}: it has changed since the export"):
        check_folder(copy)
    record = read_record(copy)
    (copy / RECORD).unlink()
    (copy / "README.md").unlink()
    write_record(copy, record)
    with pytest.raises(DamagedError, match=rf"{GRAPH}: its vectors differ by"):
        check_folder(copy)


def test_a_check_without_onnxruntime_says_that_it_has_not_run_the_graph(facet, monkeypatch):
    monkeypatch.setattr("disent_core.export.folder.find_spec", lambda name: None)
    assert check_folder(facet).graph is False


def test_a_graph_that_is_too_large_for_a_file_is_refused_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.export.onnx_graph.MOST_BYTES", 100)
    with pytest.raises(TrainingError, match="can't be one ONNX graph: its graph would have") as refused:
        exported("dream", tmp_path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_graph_with_other_vectors_is_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.export.folder.graph_vectors", lambda folder, texts, _: [
        (slice(0, 1), {name: np.full((1, 1), 9.0) for name in ("meaning", "language")})])  # fmt: skip
    with pytest.raises(TrainingError, match="ONNX graph: its vectors would differ by"):
        exported("dream", tmp_path)

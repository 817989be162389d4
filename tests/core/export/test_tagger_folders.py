"""Folders of taggers: models that plain transformers loads, with the tags of the head."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from random_heads import tagger

import disent
from disent_core.errors import DamagedError, TrainingError
from disent_core.export.checking import check_folder
from disent_core.export.folder import TOLERANCE, TaggerProbes
from disent_core.export.onnx_graph import GRAPH
from disent_core.export.saved_folder import RECORD, read_record, write_record

pytest.importorskip("onnxruntime")

SENTENCES = [["toy", "1", "'So", "de-4", "unknown"], [], ["en"] * 60, ["金", "曜"], ["a's", "b"]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[disent.Model, Path]:
    """A tagger of seed 4 and its folder; tests only read it."""
    place = tmp_path_factory.mktemp("tagger")
    model = disent.load(tagger(place), seed=4, device="cpu")
    written = model.save(place / "out", onnx=True)
    assert written.tags == ("B-place", "I-place", "O")
    assert max(written.difference, written.graph_difference) <= TOLERANCE
    return model, place / "out"


def test_the_lines_of_the_card_give_the_tags_of_the_head(saved):
    model, folder = saved
    code = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)[1]
    names = {}
    exec(code.replace("FOLDER", str(folder)), names)
    labelled = [names["tags"](words) if words else [] for words in SENTENCES]
    assert labelled == model.label(SENTENCES, language="de")
    assert len({tag for tags in labelled for tag in tags}) > 1


def test_a_loaded_folder_tags_as_its_head_and_is_saved_as_the_same_folder(saved, tmp_path):
    model, folder = saved
    loaded = disent.load(shutil.copytree(folder, tmp_path / "copy"), device="cpu")
    assert (loaded.seed, loaded.fingerprint, loaded.languages) == (4, model.fingerprint, ("de",))
    assert loaded.label(SENTENCES, language="de") == model.label(SENTENCES, language="de")
    loaded.save(tmp_path / "again", onnx=True)
    assert read_record(tmp_path / "again") == read_record(folder)


def test_a_tagger_of_a_layer_below_the_last_is_cut_and_has_no_embeddings_to_choose_from(tmp_path):
    model = disent.load(tagger(tmp_path, layer=1), seed=3, device="cpu")
    with pytest.raises(ValueError, match="has no embeddings to choose from"):
        model.save(tmp_path / "out", ["meaning"])
    model.save(tmp_path / "out")
    assert disent.load(tmp_path / "out").label(SENTENCES, language="de") == model.label(SENTENCES, language="de")


def test_a_check_runs_model_and_graph_of_a_tagger(saved, tmp_path):
    _, folder = saved
    other = disent.load(tagger(tmp_path), seed=3, device="cpu").save(tmp_path / "other", onnx=True).folder
    checked = check_folder(folder)
    assert (checked.tags, checked.graph) == (("B-place", "I-place", "O"), True)
    for name in ("model.safetensors", GRAPH):
        copy = Path(shutil.copytree(folder, tmp_path / name))
        shutil.copyfile(other / name, copy / name)
        with pytest.raises(DamagedError, match=f"{name}: it has changed since the export"):
            check_folder(copy)
        record = read_record(copy)
        for file in (RECORD, "README.md"):
            (copy / file).unlink()
        write_record(copy, record)
        with pytest.raises(DamagedError, match="its logits differ by"):
            check_folder(copy)


def test_a_tagger_folder_has_a_hub_card_no_local_path_and_no_pickle(saved):
    from huggingface_hub import ModelCard

    card = ModelCard.load(saved[1] / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag) == ("transformers", "token-classification")
    files = [file for file in saved[1].rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".json", ".safetensors", ".md", ".onnx"}
    assert [file for file in files if str(saved[1].parent).encode() in file.read_bytes()] == []


def test_a_tagger_with_differing_logits_is_not_published(tmp_path, monkeypatch):
    def other(sentences, logits, length):
        return TaggerProbes(sentences, {"logits": np.ones_like(logits["logits"])}, length)

    monkeypatch.setattr("disent_core.export.folder.TaggerProbes", other)
    with pytest.raises(TrainingError, match="its logits would differ from the head's by"):
        disent.load(tagger(tmp_path), seed=3, device="cpu").save(tmp_path / "out")
    assert not (tmp_path / "out").exists()

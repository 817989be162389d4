"""`disent.load` of an exported folder or of the copied file of a head: what is refused, and what is not.

`test_every_method` has the vectors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from random_heads import CASES, TEXTS
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import disent
from disent_core.errors import DamagedError, EncoderError, TrainingError
from disent_core.export.saved_folder import RECORD, REST, checksum, read_record
from disent_core.storage.weights import describe_weights

pytest.importorskip("sentence_transformers")


def saved(case: str, folder: Path) -> disent.Model:
    path = CASES[case](folder)
    model = disent.load(path, device="cpu", seed=None if case in ("projection", "centered") else 4)
    model.save(folder / "out")
    return model


@pytest.mark.parametrize("case", ["facet", "lexicon", "fine_tuned", "emu, head"])
def test_a_folder_stores_no_weight_twice_and_is_loaded_and_saved_as_the_same_folder(case, tmp_path):
    saved(case, tmp_path)
    assert not (tmp_path / "out" / REST).exists()
    assert read_record(tmp_path / "out")["weights"]
    disent.load(tmp_path / "out", device="cpu").save(tmp_path / "again")
    assert read_record(tmp_path / "again") == read_record(tmp_path / "out")
    assert (tmp_path / "again" / "README.md").read_text() == (tmp_path / "out" / "README.md").read_text()


def test_the_folder_of_a_words_only_head_needs_and_has_no_encoder(tmp_path):
    path = CASES["lexicon"](tmp_path)
    shutil.rmtree(tmp_path / "model")
    written = disent.load(path, device="cpu").save(tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").rglob("*.safetensors")) == ["model.safetensors"]
    assert not list((tmp_path / "out").glob("tokenizer*"))
    assert written.difference < 1e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder of lexicon, which has code; tests only read it."""
    place = tmp_path_factory.mktemp("lexicon")
    saved("lexicon", place)
    return place / "out"


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("word_rows.py", "has changed since the export"),
        ("1_Router/meaning_0_FacetHead/config.json", "has changed since the export"),
        ("sitecustomize.py", "was added after the export"),
        ("modules.json", "is missing"),
    ],
)
def test_a_folder_with_changed_missing_or_unlisted_files_is_refused(copy, name, problem):
    with (copy / name).open("a") as file:
        file.write("\n")
    if problem == "is missing":
        (copy / name).unlink()
    with pytest.raises(DamagedError, match=rf"{Path(name).name}: it {problem}"):
        disent.load(copy)


def test_a_folder_with_a_changed_record_is_not_loaded(copy):
    record = json.loads((copy / RECORD).read_text())
    record["description"]["settings"]["template_units"] += 1
    (copy / RECORD).write_text(json.dumps(record))
    with pytest.raises(DamagedError, match=rf"{RECORD}: it has changed since the export"):
        disent.load(copy)


def test_a_card_may_be_edited_and_a_folder_may_have_files_of_git_and_the_hub(copy):
    (copy / "README.md").write_text("# Mine")
    (copy / ".gitattributes").write_text("*.safetensors filter=lfs")
    assert disent.load(copy, device="cpu").embeddings == ("meaning", "template", "residual")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda record: record["files"].update({"../model.safetensors": "0" * 64}), "a file outside the folder"),
        (lambda record: record["files"].update({"/etc/hostname": "0" * 64}), "a file outside the folder"),
        (lambda record: record["weights"]["4.table"].update(file="../x.safetensors"), "weights in files that it does"),
    ],
)
def test_a_record_with_outside_paths_or_unchecked_files_is_refused(copy, change, problem):
    record = read_record(copy)
    change(record)
    (copy / RECORD).write_text(json.dumps({**record, "checksum": checksum(record)}))
    with pytest.raises(DamagedError, match=f"it names {problem}"):
        disent.load(copy)


def linked(folder: Path, snapshot: Path, store: Path) -> Path:
    for number, file in enumerate(file for file in folder.rglob("*") if file.is_file()):
        link = snapshot / file.relative_to(folder)
        for parent in (link.parent, store):
            parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(shutil.copy(file, store / str(number)))
    return snapshot


def test_a_folder_may_link_only_into_the_hub_cache(folder, tmp_path):
    snapshot = linked(folder, tmp_path / "cache" / "snapshots" / "revision", tmp_path / "cache" / "blobs")
    vectors = disent.load(snapshot, device="cpu").encode(TEXTS)
    np.testing.assert_array_equal(vectors, disent.load(folder, device="cpu").encode(TEXTS))
    with pytest.raises(DamagedError, match="this link points outside the folder"):
        disent.load(linked(folder, tmp_path / "snapshots" / "other", tmp_path / "elsewhere"))


def test_an_unrelated_folder_and_a_single_weights_file_are_refused(tmp_path, folder):
    with pytest.raises(TrainingError, match="not the folder of an exported head"):
        disent.load(tmp_path)
    weights = folder / "1_Router" / "meaning_0_FacetHead" / "model.safetensors"
    with pytest.raises(TrainingError, match="an exported folder"):
        disent.load(weights)
    assert weights.is_file()


def test_a_folder_refuses_another_seed_or_encoder(folder):
    with pytest.raises(ValueError, match=r"not trained with seed 3; choose one of 4"):
        disent.load(folder, seed=3)
    with pytest.raises(ValueError, match="has its own encoder"):
        disent.load(folder, encoder="elsewhere")


def copied(case: str, place: Path) -> tuple[Path, np.ndarray]:
    """A head's file alone in a folder, with the vectors that the head has; its home is renamed."""
    head = CASES[case](place / "home")
    vectors = disent.load(head, device="cpu").encode(TEXTS)
    lone = place / "lone" / head.name
    lone.parent.mkdir()
    shutil.copy(head, lone)
    (place / "home").rename(place / "gone")
    return lone, vectors


def test_a_words_only_head_is_loaded_without_its_encoder(tmp_path):
    lone, vectors = copied("lexicon", tmp_path)
    model = disent.load(lone, device="cpu")
    np.testing.assert_array_equal(model.encode(TEXTS), vectors)
    assert model.max_length is None


def test_a_copied_head_finds_an_adjacent_encoder_by_fingerprint(tmp_path):
    lone, vectors = copied("dream", tmp_path)
    shutil.copytree(tmp_path / "gone" / "model", lone.parent / "any-name")
    np.testing.assert_array_equal(disent.load(lone, device="cpu").encode(TEXTS), vectors)


def test_a_copied_head_refuses_another_encoder_and_names_the_missing_one(tmp_path):
    lone, _ = copied("dream", tmp_path)
    other = Path(shutil.copytree(tmp_path / "gone" / "model", lone.parent / "model"))
    (other / "tokenizer.json").write_text("{}")
    fingerprint = describe_weights(lone)[0]["encoder_fingerprint"]
    message = rf"the encoder 'tiny' of this head \(fingerprint {fingerprint}\)"
    with pytest.raises(EncoderError, match=message) as refused:
        disent.load(lone)
    assert "\n" not in str(refused.value)
    with pytest.raises(EncoderError, match="not the one that the head was trained on"):
        disent.load(lone, encoder=other)


def rewritten(lone: Path, change) -> None:
    with safe_open(lone, framework="np") as file:
        metadata = dict(file.metadata())
    arrays = load_file(lone)
    change(arrays, metadata)
    save_file(arrays, lone, metadata)


def another_value(arrays, metadata) -> None:
    arrays["4.table"].view(np.uint16)[0, 0] ^= 1


def another_description(arrays, metadata) -> None:
    metadata["disent"] = metadata["disent"].replace('"trained_on": "en-de"', '"trained_on": "en-it"')


@pytest.mark.parametrize("change", [another_value, another_description])
def test_a_changed_copied_head_is_refused_and_not_moved(change, tmp_path):
    lone, _ = copied("lexicon", tmp_path)
    rewritten(lone, change)
    with pytest.raises(DamagedError, match="its checksum differs"):
        disent.load(lone)
    assert lone.is_file()


def test_a_copied_head_without_a_checksum_names_the_file_that_is_missing(tmp_path):
    lone, _ = copied("lexicon", tmp_path)
    rewritten(lone, lambda arrays, metadata: metadata.pop("checksum"))
    with pytest.raises(DamagedError, match=r"en-de\.safetensors\.manifest is missing"):
        disent.load(lone)

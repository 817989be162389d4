"""The folder of a static model: what is written is read back, and what is not as it was written is refused."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from disent_core import static_folder
from disent_core.errors import DamagedError
from disent_core.methods.modules.word_rows import random_rows
from disent_core.static_model import StaticModel

TEXTS = ["wake me up at nine", "Weck mich um neun", "私を9時に起こして", ""]
DESCRIPTION = {
    "name": "tiny",
    "method": "lexicon",
    "licence": "CC-BY-4.0",
    "attribution": "MASSIVE 1.1, <b>Amazon</b> | CC BY 4.0",
    "data": {"massive": "0123"},
    "settings": {"epochs": 6},
    "measured": [{"task": "translation", "en-de": 0.88}, {"task": "template|s", "de-en": "0.9"}],
}


def made(bits: int = 8, description=DESCRIPTION, table_rows: int = 1_003) -> StaticModel:
    known = np.arange(1, table_rows, 3)
    return StaticModel.of_table(
        known, random_rows(known, 16, 3) * 0.5, parts={"template": 10, "residual": 6}, seed=1 << 63, unseen=0.25,
        table_rows=table_rows, bits=bits, languages=["en", "de"], description=description,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made().save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("bits", [4, 8])
def test_a_model_that_is_saved_and_loaded_has_the_same_vectors_and_facts(bits, tmp_path):
    saved = made(bits)
    saved.save(tmp_path / "a" / "m")
    loaded = StaticModel.load(str(tmp_path / "a" / "m"))
    assert (loaded.encode(TEXTS) == saved.encode(TEXTS)).all()
    assert loaded.header == saved.header
    assert loaded.description == DESCRIPTION
    assert repr(loaded) == repr(saved)


def test_the_same_model_is_written_as_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        made().save(tmp_path / name)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"model.safetensors", "model.json", "README.md"}
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_an_earlier_model_is_replaced_and_nothing_is_left_beside_it(folder):
    made(4).save(folder)
    assert StaticModel.load(folder).header.bits == 4
    assert [path.name for path in folder.parent.iterdir()] == ["m"]


def test_a_model_is_written_whole_or_not_at_all(folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(static_folder, "card", fail)
    for target in (folder, folder.parent / "new"):
        with pytest.raises(OSError, match="full"):
            made(4).save(target)
    assert [path.name for path in folder.parent.iterdir()] == ["m"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_with_other_files_is_not_replaced(folder):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"m: the folder has other files, such as notes\.txt\. Name a new folder"):
        made().save(folder)
    with pytest.raises(ValueError, match="this is a file"):
        made().save(folder / "notes.txt")
    assert (folder / "notes.txt").read_text() == "mine"


def test_the_card_has_licence_attribution_and_measures_as_text(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    front = card.split("---\n")[1]
    assert 'license: "cc-by-4.0"' in front
    assert 'language: ["en", "de"]' in front
    assert "MASSIVE 1.1, \\<b\\>Amazon\\</b\\> \\| CC BY 4.0" in card
    assert (
        "| task | en-de | de-en |\n| --- | --- | --- |\n| translation | 0.880 |  |\n| template\\|s |  | 0.9 |" in card
    )
    assert '"massive": "0123"' in card


def edited(folder: Path, **changed: object) -> None:
    record = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    text = json.dumps({name: value for name, value in (record | changed).items() if value is not ...})
    (folder / "model.json").write_text(text, encoding="utf-8")


def rewritten(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    """Change the arrays, and record their checksum: what somebody writes who means harm."""
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    edited(folder, weights={"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def wrong_bytes(folder: Path) -> None:
    content = b"\xff" * 100
    (folder / "model.safetensors").write_bytes(content)
    edited(folder, weights={"bytes": 100, "sha256": hashlib.sha256(content).hexdigest()})


@pytest.mark.parametrize(
    ("harm", "file", "problem"),
    [
        (lambda m: (m / "model.json").unlink(), "m", "it has no model.json"),
        (lambda m: (m / "model.json").write_text('{\n"a"'), "model.json", "delimiter at line 2, column 4"),
        (lambda m: (m / "model.json").write_text("[]"), "model.json", "not a JSON object"),
        (lambda m: edited(m, format="other"), "model.json", "its format is 'other'"),
        (lambda m: edited(m, version=2), "model.json", "version 2 of the format"),
        (lambda m: edited(m, seed=...), "model.json", "it lacks seed"),
        (lambda m: edited(m, weights=None), "model.json", "no checksum"),
        (lambda m: edited(m, bits=16), "model.json", "bits must be"),
        (lambda m: edited(m, parts={"template": 10**9}), "model.json", "the width of 'template'"),
        (lambda m: edited(m, parts=[1]), "model.json", "parts must be a table"),
        (lambda m: edited(m, table_rows=10**12), "model.json", "table_rows must be"),
        (lambda m: edited(m, unseen=float("nan")), "model.json", "unseen must be"),
        (lambda m: edited(m, languages=[1]), "model.json", "languages must be"),
        (lambda m: (m / "model.safetensors").unlink(), "model.safetensors", "it is missing"),
        (lambda m: (m / "model.safetensors").write_bytes(b""), "model.safetensors", "it has 0 bytes where"),
        (lambda m: flipped(m / "model.safetensors"), "model.safetensors", "SHA-256"),
        (wrong_bytes, "model.safetensors", "it is not a safetensors file"),
        (lambda m: edited(m, bits=4), "model.safetensors", "its arrays are"),
        (lambda m: edited(m, table_rows=1 << 26), "model.safetensors", "its arrays are"),
        (lambda m: rewritten(m, lambda a: a.pop("scales")), "model.safetensors", "its arrays are"),
        (lambda m: rewritten(m, lambda a: a["known"].fill(0)), "model.safetensors", "marks 0 rows as known"),
        (lambda m: rewritten(m, lambda a: a["known"].__ior__(0)[-1:].fill(128)), "model.safetensors", "rows as known"),
        (lambda m: rewritten(m, lambda a: a["scales"].fill(np.nan)), "model.safetensors", "scales"),
    ],
)
def test_a_changed_model_folder_is_refused_with_file_and_remedy(harm, file, problem, folder):
    harm(folder)
    with pytest.raises(DamagedError, match=re.escape(problem)) as caught:
        StaticModel.load(folder)
    assert str(caught.value).startswith(f"{folder if file == 'm' else folder / file}: ")
    assert re.search(r"\. (Copy|Install|Name) ", str(caught.value))


def test_only_a_folder_with_a_valid_record_is_a_static_model(folder, tmp_path):
    assert static_folder.is_static(folder)
    edited(folder, format="other")
    assert not static_folder.is_static(folder)
    assert not static_folder.is_static(tmp_path)
    assert not static_folder.is_static(folder / "model.safetensors")

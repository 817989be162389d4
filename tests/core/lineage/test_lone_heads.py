"""A head's file copied alone: it is checked, finds its encoder by content, or says in one line what is missing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from random_heads import CASES, TEXTS
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import disent
from disent_core.errors import DamagedError, EncoderError


def copied(case: str, place: Path) -> tuple[Path, np.ndarray]:
    """A head's file alone in a folder, with the vectors that the head has; its home is renamed."""
    head = CASES[case](place / "home")
    vectors = disent.load(head, device="cpu").encode(TEXTS)
    lone = place / "lone" / head.name
    lone.parent.mkdir()
    shutil.copy(head, lone)
    (place / "home").rename(place / "gone")
    return lone, vectors


def test_a_head_that_reads_words_alone_is_loaded_without_its_encoder(tmp_path):
    lone, vectors = copied("lexicon", tmp_path)
    model = disent.load(lone, device="cpu")
    np.testing.assert_array_equal(model.encode(TEXTS), vectors)
    assert model.max_length is None


@pytest.mark.parametrize("name", ["model", "any-name"])
def test_a_copied_head_finds_its_encoder_beside_it_by_its_content(name, tmp_path):
    lone, vectors = copied("dream", tmp_path)
    shutil.copytree(tmp_path / "gone" / "model", lone.parent / name)
    np.testing.assert_array_equal(disent.load(lone, device="cpu").encode(TEXTS), vectors)


def test_a_copied_head_never_takes_another_encoder_and_names_the_one_that_is_missing_in_one_line(tmp_path):
    lone, _ = copied("dream", tmp_path)
    other = Path(shutil.copytree(tmp_path / "gone" / "model", lone.parent / "model"))
    (other / "tokenizer.json").write_text("{}")
    fingerprint = disent_fingerprint(lone)
    with pytest.raises(EncoderError, match=f"the encoder 'tiny' of this head, of fingerprint {fingerprint}") as refused:
        disent.load(lone)
    assert "\n" not in str(refused.value)
    with pytest.raises(EncoderError, match="not the one that the head was trained on"):
        disent.load(lone, encoder=other)


def disent_fingerprint(head: Path) -> str:
    from disent_core.storage.weights import describe_weights

    return describe_weights(head)[0]["encoder_fingerprint"]


def rewritten(lone: Path, change) -> None:
    """Change the arrays or the metadata of a file."""
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
def test_a_copied_head_that_has_changed_is_refused_and_left_where_it_is(change, tmp_path):
    lone, _ = copied("lexicon", tmp_path)
    rewritten(lone, change)
    with pytest.raises(DamagedError, match="its checksum is another one"):
        disent.load(lone)
    assert lone.is_file()


def test_a_copied_head_without_a_checksum_names_the_file_that_is_missing(tmp_path):
    lone, _ = copied("lexicon", tmp_path)
    rewritten(lone, lambda arrays, metadata: metadata.pop("checksum"))
    with pytest.raises(DamagedError, match=r"en-de\.safetensors\.manifest is missing"):
        disent.load(lone)

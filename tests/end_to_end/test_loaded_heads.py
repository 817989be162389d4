"""`disent.load` on the file of a trained head: the vectors of the run that made it, without that run."""

import shutil

import numpy as np
import pytest

import disent
from disent_core.errors import EncoderError

pytestmark = pytest.mark.end_to_end

TEXTS = ["wake me up at nine", "an utterance that no corpus has", "play some jazz", "wake me up at nine"]


def head_file(project, method: str, pair: str = "en-de"):
    return project.workspace.head("tiny", method, pair)


@pytest.fixture(scope="module")
def run(finished):
    return disent.open(finished.config, home=finished.home)


@pytest.mark.parametrize("method", ["dream", "fmda"])
def test_a_loaded_head_embeds_as_the_run_does(run, finished, method):
    model = disent.load(head_file(finished, method))
    theirs = run.head(method, pair="en-de").embed(TEXTS, language="en")
    ours = model.encode_all(TEXTS)
    assert tuple(ours) == model.embeddings == tuple(theirs)
    for name, matrix in theirs.items():
        np.testing.assert_array_equal(ours[name], matrix)
        np.testing.assert_array_equal(model.encode(TEXTS, name), matrix)
    head = run.head(method, pair="en-de")
    np.testing.assert_array_equal(head.encode(TEXTS), model.encode(TEXTS))
    assert (head.fingerprint, head.seeds, head.description) == (model.fingerprint, model.seeds, model.description)


def test_a_seed_may_be_chosen(run, finished):
    model = disent.load(head_file(finished, "dream"), seed=1)
    theirs = run.head("dream", pair="en-de").embed(TEXTS, language="en", seed=1)
    np.testing.assert_array_equal(model.encode(TEXTS, "meaning"), theirs["meaning"])
    with pytest.raises(ValueError, match=r"not trained with seed 7; choose one of 0, 1"):
        disent.load(head_file(finished, "dream"), seed=7)


def test_one_text_gives_one_vector_similarity_is_the_cosine_and_other_embeddings_are_refused(
    finished, capsys, monkeypatch
):
    model = disent.load(head_file(finished, "dream"))
    vectors = model.encode(TEXTS)
    assert model.encode(TEXTS[0]).shape == vectors[0].shape
    cosines = model.similarity(vectors, vectors)
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-6)
    assert cosines[0, 3] == pytest.approx(1)
    with pytest.raises(ValueError, match="no embedding 'shape'; choose one of meaning, language"):
        model.encode(TEXTS, "shape")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("disent_core.progress.PATIENCE", 0)
    model.encode(TEXTS * 8, progress=True)
    assert "32/32" in capsys.readouterr().err


def test_a_missing_or_changed_encoder_is_refused_and_can_be_passed(copied, tmp_path):
    path, folder = head_file(copied, "dream"), copied.workspace.encoder("tiny")
    before = disent.load(path).encode(TEXTS)
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(EncoderError, match="not the one that the head was trained on"):
        disent.load(path)
    shutil.rmtree(folder)
    with pytest.raises(EncoderError, match="Name its folder as encoder="):
        disent.load(path)
    np.testing.assert_array_equal(disent.load(path, encoder=moved).encode(TEXTS), before)


def test_texts_may_be_compared_by_a_method_without_training_too(run):
    head = run.head("raw", pair="en-de")
    cosines = head.similarity(TEXTS, TEXTS[:2])
    assert cosines.shape == (4, 2)
    assert cosines[3, 0] == pytest.approx(1)
    np.testing.assert_array_equal(cosines, head.similarity(head.encode(TEXTS), head.encode(TEXTS[:2])))

"""The aligned encoder: the teacher's blocks read other languages, and English as before."""

import hashlib

import numpy as np
import pytest
from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

from disent_core.encoders.kinds.distilled import aligned
from disent_core.encoders.kinds.distilled.aligned import make_aligned
from disent_core.encoders.kinds.distilled.steps import is_made
from disent_core.encoders.kinds.huggingface import record_of
from disent_core.errors import EncoderError
from tests.core.tiny_encoder import tiny_encoder
from tests.core.tiny_teacher import PIVOTS, config, loaded, material, save_teacher, translated, translations
from tests.core.word_bert import encode

RECORD = {"made_from": "a" * 32}


def make(folder, teacher, training=None, **changed):
    make_aligned(training or material().training, config(**changed), teacher, folder, RECORD)
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return save_teacher(tmp_path_factory.mktemp("teacher"))


@pytest.fixture(scope="module")
def made(teacher, tmp_path_factory):
    return make(tmp_path_factory.mktemp("made") / "multi", teacher)


def test_a_text_of_the_teachers_own_words_has_the_teachers_vector(teacher, made):
    texts = [*PIVOTS[:18], "Wake ME up.", "call [MASK] at ten"]
    own, _ = encode(loaded(teacher), texts)
    new, _ = encode(loaded(made), texts)
    np.testing.assert_allclose(new, own, atol=2e-6)


def test_a_word_begins_after_an_apostrophe_as_it_does_for_the_teacher(made):
    words = AutoTokenizer.from_pretrained(made).backend_tokenizer.pre_tokenizer.pre_tokenize_str("don't, wake")
    assert [word for word, _ in words] == ["▁don", "▁'", "▁t", "▁,", "▁wake"]


def test_a_translation_is_nearer_to_its_sentence_than_in_the_teacher(teacher, made):
    def nearest(encoder):
        left, right = (encode(encoder, texts)[0] for texts in (PIVOTS, [translated(text, "xx") for text in PIVOTS]))
        left, right = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (left, right))
        return ((right @ left.T).argmax(axis=1) == np.arange(len(left))).mean()

    assert nearest(loaded(made)) > nearest(loaded(teacher)) + 0.2


def files(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_the_same_pairs_give_the_same_bytes(teacher, made, tmp_path):
    assert files(make(tmp_path / "multi", teacher)) == files(made)


def test_the_folder_tells_what_it_was_made_from_and_is_only_that_until_a_file_changes(teacher, tmp_path):
    folder = make(tmp_path / "multi", teacher)
    assert record_of(folder) == RECORD
    assert (is_made(folder, RECORD["made_from"]), is_made(folder, "b" * 32)) == (True, False)
    (folder / "config.json").write_text("{}")
    assert not is_made(folder, RECORD["made_from"])


def test_a_killed_run_keeps_its_vocabulary_and_leaves_no_encoder(teacher, tmp_path, monkeypatch):
    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(aligned, "align", dies)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path / "multi", teacher)
    assert not (tmp_path / "multi").exists()
    monkeypatch.setattr(aligned, "train_vocabulary", dies)
    make(tmp_path / "multi", teacher)
    assert {path.name for path in tmp_path.iterdir()} == {"multi"}


def test_an_encoder_that_is_there_stays_until_the_next_is_complete(teacher, tmp_path, monkeypatch):
    before = files(make(tmp_path / "multi", teacher))

    def fails(*_):
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr("disent_core.storage.results.write_folder_manifest", fails)
        with pytest.raises(OSError, match="no"):
            make(tmp_path / "multi", teacher, vocab_size=110)
    assert files(tmp_path / "multi") == before


def test_without_the_teachers_words_the_vocabulary_is_smaller(teacher, made, tmp_path):
    bare = make(tmp_path / "multi", teacher, keep_teacher_words=False)
    words = [set(AutoTokenizer.from_pretrained(folder).get_vocab()) for folder in (made, bare)]
    assert words[1] < words[0]


def test_no_pairs_and_teachers_that_can_not_be_aligned_are_errors(teacher, tmp_path):
    with pytest.raises(EncoderError, match="have no pair to align"):
        make(tmp_path / "multi", teacher, [translations("de", [])])
    other = save_teacher(tmp_path / "other")
    settings = other / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace('"mask_token": "[MASK]"', '"mask_token": null'))
    with pytest.raises(EncoderError, match=r"no special token for \['mask'\]"):
        make(tmp_path / "multi", other)
    other = save_teacher(tmp_path / "other")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    XLMRobertaModel(XLMRobertaConfig(vocab_size=100, **small)).save_pretrained(other)
    with pytest.raises(EncoderError, match="a XLMRobertaModel can't be a teacher"):
        make(tmp_path / "multi", other)
    with pytest.raises(EncoderError, match="a teacher with a WordLevel vocabulary can't be aligned"):
        make(tmp_path / "multi", tiny_encoder(tmp_path / "other").folder)

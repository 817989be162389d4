"""The aligned encoder reads other languages, and English as before; no evaluation text takes part in its making."""

import hashlib
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

from disent_core.encoders.kinds.distilled import aligned
from disent_core.encoders.kinds.distilled.aligned import (
    LEAST_PROBABILITY,
    Alignment,
    Pieces,
    align,
    aligned_rows,
    make_aligned,
)
from disent_core.encoders.kinds.distilled.pairs import Material, Translations, exclusion_digests, exclusion_key, without
from disent_core.encoders.kinds.distilled.steps import is_made
from disent_core.encoders.kinds.huggingface import record_of
from disent_core.errors import EncoderError
from disent_core.storage import text_columns
from disent_core.storage.tables import fingerprint
from tests.core.tiny_encoder import tiny_encoder
from tests.core.tiny_teacher import PIVOTS, column, config, loaded, material, save_teacher, translated, translations
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
    expected, _ = encode(loaded(teacher), texts)
    new, _ = encode(loaded(made), texts)
    np.testing.assert_allclose(new, expected, atol=2e-6)


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


def test_the_record_of_a_folder_is_valid_until_a_file_changes(teacher, tmp_path):
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


def test_an_existing_encoder_stays_until_its_replacement_is_complete(teacher, tmp_path, monkeypatch):
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
    with pytest.raises(EncoderError, match=r"no special token for mask"):
        make(tmp_path / "multi", other)
    other = save_teacher(tmp_path / "other")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    XLMRobertaModel(XLMRobertaConfig(vocab_size=100, **small)).save_pretrained(other)
    with pytest.raises(EncoderError, match="a XLMRobertaModel can't be a teacher"):
        make(tmp_path / "multi", other)
    with pytest.raises(EncoderError, match="a teacher with a WordLevel vocabulary can't be aligned"):
        make(tmp_path / "multi", tiny_encoder(tmp_path / "other").folder)


def pairs_of(*sides):
    return Translations("bitext", "de", *(column(side) for side in zip(*sides, strict=True)))


@pytest.mark.parametrize("planted", ["Wake me up!", "wake  me up", "WAKE ME, UP", "ｗａｋｅ me up"])
def test_a_pair_with_an_evaluation_text_on_either_side_is_left_out_whatever_its_case_and_punctuation(planted):
    training = pairs_of(("hello", "hallo"), (planted, "weck mich"), ("go", planted))
    kept = without(training, exclusion_digests(column(["wake me up"])))
    assert list(kept.pairs) == [("hello", "hallo")]


SOME = st.sampled_from(["a", "A", "b", "c!", "d"])


@given(st.lists(st.tuples(SOME, SOME), min_size=1, max_size=9), st.lists(SOME, max_size=2))
def test_exclusion_equals_a_loop_over_pairs(sides, evaluated):
    excluded, kept = {exclusion_key(text) for text in evaluated}, {}
    for pair in sides:
        keys = tuple(map(exclusion_key, pair))
        if excluded.isdisjoint(keys):
            kept.setdefault(keys, pair)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_columns, "BLOCK", 2)
        assert list(without(pairs_of(*sides), exclusion_digests(column(evaluated))).pairs) == list(kept.values())


def test_letters_of_every_script_are_kept_in_the_key():
    assert (exclusion_key("明日の 天気は？"), exclusion_key("Où, déjà?")) == ("明日の 天気は", "où déjà")


def test_the_fingerprint_of_material_distinguishes_training_and_held_out_pairs():
    first, second = pairs_of(("a", "b")), pairs_of(("c", "d"))
    prints = {Material([first], [second]).fingerprint, Material([second], [first]).fingerprint,
              Material([first, second], []).fingerprint}  # fmt: skip
    assert len(prints) == 3
    listed = [{"corpus": "bitext", "language": "de", "pivots": ["a", "c"], "foreign": ["b", "é"]}]
    of = Material([pairs_of(("a", "b"), ("c", "é"))], [])
    assert (of.fingerprint, of.training_fingerprint) == (fingerprint(listed, []), fingerprint(listed))


sentences = st.lists(st.integers(0, 5), max_size=4)
corpora = st.lists(st.tuples(sentences, sentences), max_size=6)


def pieces(texts):
    ids = np.array([piece for text in texts for piece in text], dtype=np.int32)
    return Pieces(ids, np.array([len(text) for text in texts], dtype=np.int64))


def looped(pivots, foreign, iterations):
    """t(teacher | new) and expected counts, as Brown et al. write them; None is NULL."""
    t = defaultdict(lambda: 1.0)
    counts = {}
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for teacher_pieces, new_pieces in zip(pivots, foreign, strict=True):
            candidates = [None, *set(new_pieces)]
            for teacher in teacher_pieces:
                norm = sum(t[teacher, new] for new in candidates)
                for new in candidates:
                    counts[teacher, new] += t[teacher, new] / norm
                    totals[new] += t[teacher, new] / norm
        t = defaultdict(lambda: 1.0, {(teacher, new): count / totals[new] for (teacher, new), count in counts.items()})
    return {
        (new, teacher): (t[teacher, new], count)
        for (teacher, new), count in counts.items()
        if new is not None and t[teacher, new] > LEAST_PROBABILITY
    }


@settings(max_examples=30)
@given(corpora, st.integers(1, 4))
def test_the_alignment_is_that_of_loops_over_sentences(corpus, iterations):
    pivots, foreign = [left for left, _ in corpus], [right for _, right in corpus]
    alignment = align(pieces(pivots), pieces(foreign), iterations=iterations)
    expected = looped(pivots, foreign, iterations)
    keys = list(zip(alignment.new.tolist(), alignment.teacher.tolist(), strict=True))
    assert set(keys) == set(expected)
    for key, probability, count in zip(keys, alignment.probability, alignment.count, strict=True):
        np.testing.assert_allclose((probability, count), expected[key], rtol=1e-9)


@settings(max_examples=20)
@given(corpora, st.integers(1, 4))
def test_no_bit_depends_on_how_many_texts_are_linked_at_a_time(corpus, iterations):
    sides = [pieces([pair[side] for pair in corpus]) for side in (0, 1)]
    whole = align(*sides, iterations=iterations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligned, "BLOCK", 2)
        in_blocks = align(*sides, iterations=iterations)
    for name, values in vars(whole).items():
        np.testing.assert_array_equal(vars(in_blocks)[name], values)


def test_aligned_rows_mix_spelling_and_alignments_by_share():
    teacher_rows = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    copied, share = [[0], [1, 2], [3], [4]], np.array([1.0, 0.25, 0.0, 0.5])
    alignments = [
        Alignment(np.array([1, 1]), np.array([3, 4]), np.array([0.8, 0.1]), np.array([4.0, 0.5])),
        Alignment(np.array([1, 2]), np.array([0, 0]), np.array([0.5, 1.0]), np.array([2.0, 3.0])),
        align(pieces([]), pieces([]), iterations=2),
    ]
    rows = aligned_rows(teacher_rows, copied, share, alignments)

    def mixed(piece):
        spelt = teacher_rows[copied[piece]].mean(axis=0)
        links = [link for each in alignments for link in zip(*vars(each).values(), strict=True)]
        parts = [(count * p**0.5, teacher_rows[row]) for new, row, p, count in links if new == piece]
        if not parts:
            return spelt
        total = sum(weight for weight, _ in parts)
        mean = sum(weight * row for weight, row in parts) / total
        typical = sum(weight * np.linalg.norm(row) for weight, row in parts) / total
        mean = mean / np.linalg.norm(mean) * (np.linalg.norm(mean) + typical) / 2
        return share[piece] * spelt + (1 - share[piece]) * mean

    np.testing.assert_allclose(rows, [mixed(piece) for piece in range(4)], rtol=1e-5, atol=1e-6)

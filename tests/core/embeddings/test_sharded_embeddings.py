"""Texts encoded in shards: the vectors and states of one shard to the bit, also if a worker is killed."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sinus_encoder import SinusEncoder
from tiny_encoder import tiny_encoder

from disent_core.embeddings import store as embeddings
from disent_core.embeddings.store import STATES, VECTORS, EmbeddingStore
from disent_core.embeddings.texts import Texts
from disent_core.encoders import LazyEncoder
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.shards.backend import ShardBackend, sharded
from disent_core.text import text_key

WORDS = st.lists(st.text("abcdefgh ", min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=14, unique=True)


def texts_of(words, with_states):
    by_key = {text_key(word): word for word in words}
    return Texts.of_mapping(by_key, [text_key(word) for word in words if len(word) % with_states == 0])


def opened(home, load, texts, backend=None, name="sinus", fingerprint="f" * 32):
    """Report, vectors and states of all texts in the order of their keys."""
    store = EmbeddingStore(Path(home), encoder=name, fingerprint=fingerprint, language="en")
    with sharded(backend or ShardBackend()):
        report = store.add_in_shards(load, texts)
    vectors = store.open_vectors()
    found = [vectors.take(vectors.rows([key.decode() for key in texts.keys.tolist()]))]
    if texts.with_states.any():
        states = store.open_states()
        rows = states.rows([key.decode() for key in texts.keys[texts.with_states].tolist()])
        found += [np.concatenate([states.values[states.offsets[row] : states.offsets[row + 1]] for row in rows])]
    return (report.encoded, report.reused, report.tokens, report.truncated), found


def same(left, right):
    return left[0] == right[0] and all(
        ours.tobytes() == theirs.tobytes() for ours, theirs in zip(left[1], right[1], strict=True)
    )


@settings(max_examples=12, deadline=None)
@given(WORDS, st.integers(1, 3), st.integers(1, 5))
def test_shards_of_any_size_give_the_vectors_and_states_of_one(words, with_states, size):
    texts = texts_of(words, with_states)
    with (
        tempfile.TemporaryDirectory() as whole,
        tempfile.TemporaryDirectory() as cut,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(embeddings, "TEXTS_OF_SHARD", size)
        assert same(opened(cut, SinusEncoder, texts, ShardBackend("processes", 1)), opened(whole, SinusEncoder, texts))


def test_shards_of_a_real_model_give_the_vectors_and_states_of_one(tmp_path, monkeypatch):
    model = tiny_encoder(tmp_path / "encoder").folder
    lazy = LazyEncoder(HuggingFaceConfig(name="tiny", path=str(model), max_length=16), tmp_path, "cpu")
    texts = texts_of([f"wake me up at {'very ' * (number % 4)}{number}" for number in range(23)], 2)
    load = partial(lazy.load, "en")
    whole = opened(tmp_path / "whole", load, texts, name="tiny", fingerprint=lazy.fingerprint)
    monkeypatch.setattr(embeddings, "TEXTS_OF_SHARD", 5)
    cut = opened(tmp_path / "cut", load, texts, ShardBackend("processes", 1), "tiny", lazy.fingerprint)
    assert same(cut, whole)


def test_a_killed_worker_loses_only_the_texts_of_its_chunk_and_no_text_is_stored_twice(tmp_path, monkeypatch):
    words = [f"text {number}" for number in range(24)]
    texts = texts_of(words, 2)
    expected = opened(tmp_path / "whole", SinusEncoder, texts)
    monkeypatch.setattr(embeddings, "TEXTS_OF_SHARD", 6)
    load = partial(SinusEncoder, words[7], tmp_path / "killed", tmp_path / "loaded")
    cut = opened(tmp_path / "cut", load, texts, ShardBackend("processes", 2))
    assert cut[0][0] == 24
    assert same(((), cut[1]), ((), expected[1]))
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "loaded").read_text().count("loaded") == 3  # once a worker, of which one was replaced
    store = EmbeddingStore(tmp_path / "cut", encoder="sinus", fingerprint="f" * 32, language="en")
    for table, stored in ((VECTORS, 24), (STATES, int(texts.with_states.sum()))):
        assert sum(len(store._part_keys(part)) for part in store.parts(table)) == stored


def test_a_second_run_in_shards_encodes_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "TEXTS_OF_SHARD", 4)
    words = [f"text {number}" for number in range(20)]
    opened(tmp_path, SinusEncoder, texts_of(words[:10], 2), ShardBackend("processes", 1))
    again = opened(tmp_path, SinusEncoder, texts_of(words, 2), ShardBackend("processes", 1))
    assert again[0][:2] == (10, 10)
    assert same(((), again[1]), ((), opened(tmp_path / "other", SinusEncoder, texts_of(words, 2))[1]))

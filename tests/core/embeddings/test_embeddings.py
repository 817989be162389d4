"""The content-addressed store, in one process and in shards: nothing is encoded twice, and what comes back is what was
encoded."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sinus_encoder import SinusEncoder
from tiny_encoder import tiny_encoder

from disent_core.embeddings import mmap_cache
from disent_core.embeddings import store as embeddings
from disent_core.embeddings.arrays import KEY, Texts
from disent_core.embeddings.store import STATES, VECTORS, EmbeddingStore, encoded_tables
from disent_core.encoders import LazyEncoder
from disent_core.encoders.contract import EncodedBatch
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.errors import DamagedError, EncoderError, TableError
from disent_core.shards.backend import ShardBackend, sharded
from disent_core.storage.results import write_result
from disent_core.text import text_key
from disent_core.training.data import state_bank, vector_bank

DIM = 6


def half_at_least(kind):
    return "float16" if kind == "int8" else kind


class CountingEncoder:
    name, dim, fingerprint = "counting", DIM, "f" * 32

    def __init__(self, batch=2, states_dtype="float32", vector_dtype="float32"):
        self.batch, self.states_dtype, self.vector_dtype = batch, states_dtype, vector_dtype
        self.asked, self.before_batch = [], lambda number: None

    @staticmethod
    def states_of(text):
        codes = np.frombuffer(text.encode(), np.uint8).astype(np.float32)
        return np.sin(codes[:, None] * np.arange(1, DIM + 1)).astype(np.float32)

    def encode(self, texts, *, states):
        self.asked += texts
        order = np.arange(len(texts))[::-1]
        for number, rows in enumerate(np.array_split(order, -(-len(texts) // self.batch)) if texts else []):
            self.before_batch(number)
            of_texts = [self.states_of(texts[row]) for row in rows]
            yield EncodedBatch(
                indices=rows,
                vectors=np.stack([matrix.mean(0) for matrix in of_texts]),
                states=np.concatenate(of_texts).astype(half_at_least(self.states_dtype)) if states else None,
                lengths=np.array([len(matrix) for matrix in of_texts]),
                truncated=sum(len(texts[row]) > 8 for row in rows),
            )


def by_key(*texts):
    return {text_key(text): text for text in texts}


def planned(texts, state_keys):
    plan = Texts.of_mapping(texts)
    return replace(plan, with_states=np.isin(plan.keys, np.array(list(state_keys), KEY)))


def encode_missing(store, encoder, texts, state_keys=()):
    return store.add(encoder, planned(texts, state_keys))


@pytest.fixture
def encoder():
    return CountingEncoder()


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore(tmp_path, encoder="counting", fingerprint="f" * 32, language="en")


def vectors_of(store, texts):
    table = store.open_vectors()
    return table.take(table.rows(list(texts)))


def test_a_second_run_encodes_only_new_texts(store, encoder):
    texts = by_key("play", "stop", "pause")
    first = encode_missing(store, encoder, texts, state_keys=texts)
    encoder.asked.clear()
    second = encode_missing(store, encoder, texts, state_keys=texts)
    assert (first.encoded, first.reused, second.encoded, second.reused) == (3, 0, 0, 3)
    assert encoder.asked == []
    encode_missing(store, encoder, by_key("play", "stop"))
    encoder.asked.clear()
    report = encode_missing(store, encoder, by_key("play", "louder", "stop"))
    assert (encoder.asked, report.encoded, report.reused) == (["louder"], 1, 2)


def test_a_text_that_needs_vector_and_states_is_encoded_once(store, encoder):
    report = encode_missing(store, encoder, by_key("play", "stop"), state_keys=[text_key("stop")])
    assert sorted(encoder.asked) == ["play", "stop"]
    assert (report.tokens, report.truncated) == (8, 0)
    assert store.open_vectors().keys.astype(str).tolist() == sorted(by_key("play", "stop"))
    assert store.open_states().keys.astype(str).tolist() == [*by_key("stop")]


def test_states_requested_later_leave_stored_vectors_unchanged(store, encoder):
    texts = by_key("play", "stop")
    encode_missing(store, encoder, texts)
    before = store.parts(VECTORS)
    report = encode_missing(store, encoder, texts, state_keys=[text_key("stop")])
    assert (report.encoded, store.parts(VECTORS)) == (1, before)


def test_a_run_killed_between_chunks_keeps_the_finished_chunks(store, encoder, monkeypatch):
    monkeypatch.setattr(embeddings, "CHUNK_TEXTS", 4)
    texts = by_key(*(f"text {number}" for number in range(12)))

    def kill(number):
        if number == 5:
            raise KeyboardInterrupt

    encoder.before_batch = kill
    with pytest.raises(KeyboardInterrupt):
        encode_missing(store, encoder, texts, state_keys=texts)
    encoder.before_batch = lambda number: None
    report = encode_missing(store, encoder, texts, state_keys=texts)
    assert (report.encoded, report.reused) == (4, 8)
    assert len(store.parts(VECTORS)) == len(store.parts(STATES)) == 3


def test_a_run_killed_between_states_and_vectors_stores_no_state_twice(store, encoder):
    texts = by_key("play", "stop")
    encode_missing(store, encoder, texts, state_keys=texts)
    (part,) = store.parts(VECTORS)
    part.unlink()
    encode_missing(store, encoder, texts, state_keys=texts)
    assert len(store.parts(STATES)) == 1
    np.testing.assert_array_equal(vectors_of(store, texts)[0], encoder.states_of("play").mean(0))


def test_languages_and_encoders_share_nothing(tmp_path, encoder):
    for language, fingerprint in (("en", "f" * 32), ("de", "f" * 32)):
        store = EmbeddingStore(tmp_path, encoder="counting", fingerprint=fingerprint, language=language)
        assert encode_missing(store, encoder, by_key("taxi")).encoded == 1
    other_store = EmbeddingStore(tmp_path, encoder="counting", fingerprint="0" * 32, language="en")
    with pytest.raises(ValueError, match="is not that of store"):
        encode_missing(other_store, encoder, by_key("taxi"))


@settings(max_examples=12)
@given(texts=st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=20, unique=True),
       cut=st.integers(0, 20), kind=st.sampled_from(["float16", "float32"]))  # fmt: skip
def test_stored_vectors_and_states_round_trip_exactly(texts, cut, kind):
    encoder = CountingEncoder(batch=3, states_dtype=kind, vector_dtype=kind)
    with tempfile.TemporaryDirectory() as home:
        store = EmbeddingStore(Path(home), encoder="counting", fingerprint="f" * 32, language="en")
        encode_missing(store, encoder, by_key(*texts[:cut]), state_keys=by_key(*texts[:cut]))
        encode_missing(store, encoder, by_key(*texts), state_keys=by_key(*texts))
        keys = list(by_key(*texts))
        vectors, states = store.open_vectors(), store.open_states()
        rows, state_rows = vectors.rows(keys), states.rows(keys)
        assert vectors.matrix.dtype == states.values.dtype == kind
        for text, row, state_row in zip(texts, rows, state_rows, strict=True):
            expected = encoder.states_of(text)
            np.testing.assert_array_equal(vectors.matrix[row], expected.mean(0).astype(kind))
            stored = states.values[states.offsets[state_row] : states.offsets[state_row + 1]]
            np.testing.assert_array_equal(stored, expected.astype(kind))


def test_states_of_8_bits_are_as_by_a_loop_over_tokens_and_half_as_large(store):
    encoder = CountingEncoder(states_dtype="int8")
    encode_missing(store, encoder, by_key("play jazz", "up"), state_keys=by_key("play jazz", "up"))
    table = store.open_states()
    bank, rows = state_bank([table]), torch.from_numpy(table.rows(list(by_key("up", "play jazz"))))
    states, mask = bank.take(rows)
    for text, of_text, is_real in zip(("up", "play jazz"), states, mask, strict=True):
        for token, restored in zip(CountingEncoder.states_of(text), of_text[is_real].tolist(), strict=True):
            scale = float(np.float16(max(abs(np.float16(token))) / np.float32(127)))
            expected = [round(float(np.float16(value)) / scale) * scale for value in token]
            assert restored == pytest.approx(expected, abs=1e-3)
            assert restored == pytest.approx(token.tolist(), abs=0.51 * scale + 1e-3)
    assert (table.values.dtype, table.values.shape[1], bank.values.dim) == (np.int8, DIM + 2, DIM)


def test_tables_are_memory_maps_sorted_by_key_that_torch_takes(store, encoder):
    encode_missing(store, encoder, by_key("play", "stop", "pause"))
    table = store.open_vectors()
    assert isinstance(table.matrix, np.memmap)
    assert (table.keys[:-1] < table.keys[1:]).all()
    torch.from_numpy(table.matrix)[0] = 1.0  # in memory only
    assert not (store.open_vectors().matrix[0] == 1.0).all()


def test_new_parts_are_appended_to_the_arrays_and_nothing_stored_is_written_again(store, encoder, monkeypatch):
    written, write = [], mmap_cache._write
    monkeypatch.setattr(
        mmap_cache, "_write", lambda path, start, column: written.append(start) or write(path, start, column)
    )
    encode_missing(store, encoder, by_key("play"))
    store.open_vectors(), store.open_vectors()
    encode_missing(store, encoder, by_key("stop", "pause"))
    assert len(store.open_vectors().keys) == 3
    assert written == [0, 0, 32, 4 * DIM]
    assert sorted(file.stat().st_size for file in store._home.glob("cache/**/*.bin")) == [3 * 4 * DIM, 3 * 32]
    np.testing.assert_array_equal(vectors_of(store, by_key("play"))[0], encoder.states_of("play").mean(0))


def test_appended_arrays_equal_arrays_built_at_once(store, encoder):
    for texts in (["play"], ["stop", "pause"], ["louder", "up"]):
        encode_missing(store, encoder, by_key(*texts), state_keys=by_key(*texts))
        grew = vector_bank([store.open_vectors()]), state_bank([store.open_states()])
    rmtree(store._home / "cache")
    at_once = vector_bank([store.open_vectors()]), state_bank([store.open_states()])
    rows = torch.arange(5)
    assert store.open_vectors().order is None
    assert torch.equal(grew[0].take(rows), at_once[0].take(rows))
    assert torch.equal(grew[1].take(rows)[0], at_once[1].take(rows)[0])


@pytest.mark.parametrize("group_bytes", [1, mmap_cache.GROUP_BYTES], ids=["groups", "one group"])
def test_rows_are_found_in_all_parts_and_duplicate_texts_count_once(store, encoder, monkeypatch, group_bytes):
    monkeypatch.setattr(mmap_cache, "GROUP_BYTES", group_bytes)
    texts = by_key("play", "stop", "pause")
    for some in (["play", "stop"], ["pause"]):
        encode_missing(store, encoder, by_key(*some), state_keys=by_key(*some))
    for table in (VECTORS, STATES):
        part = store.parts(table)[0]
        with write_result(part.with_name("part-copy.parquet")) as copy:
            pq.write_table(pq.read_table(part, partitioning=None).slice(0, 1), copy)
    states, rows = state_bank([store.open_states()]), torch.from_numpy(store.open_states().rows(list(texts)))
    np.testing.assert_array_equal(
        vectors_of(store, texts), [encoder.states_of(text).mean(0) for text in texts.values()]
    )
    for text, row in zip(texts.values(), rows, strict=True):
        np.testing.assert_array_equal(states.take(row.unsqueeze(0))[0][0], encoder.states_of(text))
    assert len(store.open_vectors().keys) == 3


def test_bytes_that_a_killed_process_appended_are_overwritten(store, encoder):
    encode_missing(store, encoder, by_key("play"))
    store.open_vectors()
    for file in store._home.glob("cache/arrays/**/*.bin"):
        file.write_bytes(file.read_bytes() + b"half of a row")
    encode_missing(store, encoder, by_key("stop"))
    np.testing.assert_array_equal(vectors_of(store, by_key("stop"))[0], encoder.states_of("stop").mean(0))
    assert not list(store._home.glob("cache/arrays/**/*.damaged"))


def test_a_missing_key_and_a_damaged_part_are_named_with_a_remedy(store, encoder):
    encode_missing(store, encoder, by_key("play"))
    key = text_key("stop")
    with pytest.raises(TableError, match=f"1 of 2 texts are missing, e.g. {key}"):
        store.open_vectors().rows([text_key("play"), key])
    with pytest.raises(TableError, match="no embeddings are stored here"):
        store.open_states()
    encode_missing(store, encoder, by_key("play"))
    (part,) = store.parts(VECTORS)
    part.write_bytes(part.read_bytes()[:-20])
    fresh = EmbeddingStore(store._home, encoder="counting", fingerprint="f" * 32, language="en")
    with pytest.raises(DamagedError, match=rf"{part.name}: this file is not as it was written.*quarantined"):
        fresh.lacks(np.array(list(by_key("play")), dtype=KEY), states=False)


def test_texts_of_a_damaged_part_are_encoded_again_and_those_of_others_not(store, encoder):
    encode_missing(store, encoder, by_key("play"))
    (damaged,) = store.parts(VECTORS)
    encode_missing(store, encoder, by_key("play", "stop"))
    before = vectors_of(store, by_key("play", "stop"))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    again = EmbeddingStore(store._home, encoder="counting", fingerprint="f" * 32, language="en")
    again.quarantine_damaged()
    assert encode_missing(again, encoder, by_key("play", "stop")).encoded == 1
    np.testing.assert_array_equal(vectors_of(again, by_key("play", "stop")), before)


@pytest.mark.parametrize("name", ["keys", "values"])
def test_damaged_arrays_are_made_again_from_the_parts(store, encoder, name):
    encode_missing(store, encoder, by_key("play"))
    before = np.array(store.open_vectors().matrix)
    (file,) = store._home.glob(f"cache/arrays/**/{name}.bin")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    np.testing.assert_array_equal(store.open_vectors().matrix, before)


@pytest.mark.parametrize("value", [np.nan, 1e6])
def test_values_that_the_stored_type_does_not_hold_are_refused(store, value):
    encoder = CountingEncoder(vector_dtype="float16")
    encoder.states_of = lambda text: np.full((len(text), DIM), value, np.float32)
    with pytest.raises(EncoderError, match="a value is not finite in float16"):
        encode_missing(store, encoder, by_key("play"))
    assert store.parts(VECTORS) == []


FEW_TEXTS = by_key("one", "two words", "a third text that is longer", "four")


@pytest.mark.parametrize(("vectors", "states"), [("float32", "float16"), ("float16", "float32"), ("float32", "int8")])
def test_vectors_and_states_in_memory_equal_those_of_the_store(tmp_path, vectors, states):
    encoder = CountingEncoder(vector_dtype=vectors, states_dtype=states)
    store = EmbeddingStore(tmp_path, encoder="counting", fingerprint=encoder.fingerprint, language="en")
    encode_missing(store, encoder, FEW_TEXTS, state_keys=list(FEW_TEXTS))
    ours, our_states = encoded_tables(encoder, FEW_TEXTS, states=True)
    assert our_states is not None
    for table, stored in ((ours, store.open_vectors()), (our_states, store.open_states())):
        np.testing.assert_array_equal(table.keys, stored.keys)
    np.testing.assert_array_equal(ours.matrix, store.open_vectors().matrix)
    np.testing.assert_array_equal(our_states.values, store.open_states().values)
    np.testing.assert_array_equal(our_states.offsets, store.open_states().offsets)
    assert ours.matrix.dtype == store.open_vectors().matrix.dtype
    assert encoded_tables(encoder, FEW_TEXTS, states=False)[1] is None


WORDS = st.lists(st.text("abcdefgh ", min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=14, unique=True)


def texts_of(words, with_states):
    by_key = {text_key(word): word for word in words}
    return planned(by_key, [text_key(word) for word in words if len(word) % with_states == 0])


def opened(home, load, texts, backend=None, name="sinus", fingerprint="f" * 32):
    store = EmbeddingStore(Path(home), encoder=name, fingerprint=fingerprint, language="en")
    with sharded(backend or ShardBackend()):
        report = store.add_in_shards(load, texts)
    vectors = store.open_vectors()
    arrays = [vectors.take(vectors.rows([key.decode() for key in texts.keys.tolist()]))]
    if texts.with_states.any():
        states = store.open_states()
        rows = states.rows([key.decode() for key in texts.keys[texts.with_states].tolist()])
        arrays += [np.concatenate([states.values[states.offsets[row] : states.offsets[row + 1]] for row in rows])]
    return (report.encoded, report.reused, report.tokens, report.truncated), arrays


def same(left, right):
    return left[0] == right[0] and all(
        ours.tobytes() == theirs.tobytes() for ours, theirs in zip(left[1], right[1], strict=True)
    )


@settings(max_examples=6)
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
    cut = partial(opened, tmp_path / "cut", load, texts, ShardBackend("processes", 1), "tiny", lazy.fingerprint)
    assert same(cut(), whole)
    assert cut()[0][:2] == (0, 23)


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

"""Texts that are encoded in memory have the very values that the store would hold."""

import numpy as np
import pytest
from test_embeddings import CountingEncoder, by_key

from disent_core.embeddings.in_memory import encoded_tables
from disent_core.embeddings.store import EmbeddingStore

TEXTS = by_key("one", "two words", "a third text that is longer", "four")


@pytest.mark.parametrize(("vectors", "states"), [("float32", "float16"), ("float16", "float32")])
def test_vectors_and_states_in_memory_equal_those_of_the_store(tmp_path, vectors, states):
    encoder = CountingEncoder(vector_dtype=vectors, states_dtype=states)
    store = EmbeddingStore(tmp_path, encoder="counting", fingerprint=encoder.fingerprint, language="en")
    store.encode_missing(encoder, TEXTS, state_keys=list(TEXTS))
    ours, our_states = encoded_tables(encoder, TEXTS, states=True)
    assert our_states is not None
    for table, stored in ((ours, store.open_vectors()), (our_states, store.open_states())):
        np.testing.assert_array_equal(table.keys, stored.keys)
    np.testing.assert_array_equal(ours.matrix, store.open_vectors().matrix)
    np.testing.assert_array_equal(our_states.values, store.open_states().values)
    np.testing.assert_array_equal(our_states.offsets, store.open_states().offsets)
    assert ours.matrix.dtype == store.open_vectors().matrix.dtype


def test_states_are_left_out_where_nobody_asks_for_them():
    assert encoded_tables(CountingEncoder(), by_key("one"), states=False)[1] is None

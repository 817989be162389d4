"""Many texts with their keys: columns hold what lists of strings would."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.embeddings import arrays as module
from disent_core.embeddings.arrays import distinct_texts, keys_fingerprint, keys_of_texts
from disent_core.storage import text_columns
from disent_core.storage.tables import fingerprint
from disent_core.text import text_key, text_keys


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 2)
    monkeypatch.setattr(text_columns, "BLOCK", 2)


@given(st.lists(st.text("ab", max_size=4), max_size=9), st.lists(st.text("ab", max_size=4), max_size=9))
def test_distinct_texts_equal_a_dictionary_and_the_first_column_sets_states(first, second):
    columns = [(keys_of_texts(pa.array(part, pa.string())), pa.array(part, pa.string())) for part in (first, second)]
    distinct = distinct_texts([(*columns[0], True), (*columns[1], False)])
    expected = {text_key(text): text for text in [*first, *second]}
    assert distinct.keys.astype(str).tolist() == sorted(expected)
    assert distinct.column.to_pylist() == [expected[key] for key in sorted(expected)]
    assert distinct.with_states.tolist() == [expected[key] in first for key in sorted(expected)]


@given(st.lists(st.text(max_size=3), max_size=7, unique=True))
def test_a_fingerprint_of_keys_is_that_of_their_list(texts):
    keys = sorted(text_keys(texts))
    assert keys_fingerprint("é", np.array(keys, "S32")) == fingerprint("é", keys)

"""Columns of many texts: what lists of strings would give."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.storage import text_columns
from disent_core.storage.tables import fingerprint
from disent_core.storage.text_columns import (
    PairColumn,
    TextCollector,
    TextColumn,
    fingerprint_in_blocks,
    key_strings,
)
from disent_core.text import text_keys

TEXTS = st.lists(st.text("abé", max_size=2), max_size=7)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(text_columns, "BLOCK", 2)


@given(TEXTS)
def test_a_column_has_the_texts_that_were_appended_and_their_keys(texts):
    collector = TextCollector()
    for text in texts:
        collector.append(text)
    assert collector.column().to_pylist() == texts
    assert key_strings(collector.column()).to_pylist() == key_strings(texts).to_pylist() == text_keys(texts)


def column_of(texts):
    return TextColumn.whole(pa.array(texts, pa.string()))


@given(TEXTS, TEXTS, st.lists(st.tuples(st.text("ab"), st.text("é")), max_size=5))
def test_a_block_wise_fingerprint_equals_that_of_the_whole(first, second, pairs):
    def parts(side):
        return [{"name": "é", "b": side(first), "a": side(second)}, {"c": 1, "b": None, "a": side([])}], side(first), ()

    columns = PairColumn(*(column_of([pair[side] for pair in pairs]) for side in (0, 1)))
    assert fingerprint_in_blocks(*parts(column_of), columns) == fingerprint(*parts(list), pairs)


@given(TEXTS, st.slices(9), st.integers(-9, 9))
def test_a_text_column_indexes_and_slices_like_a_list(texts, some, place):
    column = TextColumn.whole(pa.chunked_array([texts[:2], texts[2:]], pa.string()))
    assert (list(column), column[some], len(column)) == (texts, texts[some], len(texts))
    if -len(texts) <= place < len(texts):
        assert column[place] == texts[place]
    else:
        with pytest.raises(IndexError):
            column[place]

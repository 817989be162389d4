"""Columns of many texts: what lists of strings would give."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.storage import text_columns
from disent_core.storage.text_columns import TextCollector, first_repeated, key_strings
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


@given(TEXTS)
def test_the_first_repeated_text_is_the_one_that_a_loop_finds(texts):
    places: dict[str, int] = {}
    expected = next(
        ((places[text], row) for row, text in enumerate(texts) if places.setdefault(text, row) != row), None
    )
    assert first_repeated(pa.chunked_array([texts], pa.string())) == expected

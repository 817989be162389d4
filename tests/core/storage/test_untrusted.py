"""Parquet files of others: every encoding of strings, and no more memory than the file suggests."""

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.storage import untrusted
from disent_core.storage.untrusted import read_untrusted_parquet, unpacked_pages


def written(tmp_path, *tables):
    path = tmp_path / "x.parquet"
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return path


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_strings_of_any_encoding_can_be_filtered(tmp_path, kind):
    strings = pa.array(["a", None, "b"], kind)
    table = read_untrusted_parquet(written(tmp_path, pa.table({"text": strings, "other": [1, 2, 3]})), {"text"})
    assert table.column_names == ["text"]
    assert table.filter(pa.array([True, True, False]))["text"].to_pylist() == ["a", None]


def test_each_row_group_is_read_with_its_own_dictionary(tmp_path, monkeypatch):
    table = pa.table({"text": [f"text {number}" for number in range(1000)]})
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=10, use_dictionary=False)
    sizes, measured = [], untrusted._bytes_of
    monkeypatch.setattr(untrusted, "_bytes_of", lambda column: sizes.append(len(column.dictionary)) or measured(column))
    assert read_untrusted_parquet(tmp_path / "groups.parquet", ["text"]) == table
    assert sizes == [10] * 100


def test_a_file_without_rows_keeps_its_columns_and_columns_of_one_name_are_refused(tmp_path):
    assert (
        read_untrusted_parquet(written(tmp_path, pa.table({"text": pa.array([], pa.string())})), {"text"}).num_rows == 0
    )
    table = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"])
    with pytest.raises(ValueError, match="columns are named twice"):
        read_untrusted_parquet(written(tmp_path, table), {"text"})


BOMBS = {
    "many rows": [pa.table({"x": pa.array(np.zeros(1_000_000, np.int64))})] * 10,
    "one long string in every row": [
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0] * 1_000), pa.array(["a" * 100_000]))})
    ],
    "long lists": [pa.table({"x": pa.array([[0.0] * 1_000_000] * 10)})],
    "one list of very many numbers": [pa.table({"x": pa.array([np.zeros(17_000_000, np.float32)])})],
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_small_file_can_not_fill_the_memory(tmp_path, what):
    path = written(tmp_path, *BOMBS[what])
    assert path.stat().st_size < 300_000
    with pytest.raises(ValueError, match="it unpacks to more than 64 MB"):
        read_untrusted_parquet(path, {"x"})


def test_a_bomb_is_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    with pytest.raises(ValueError, match="it unpacks to more than 64 MB"):
        read_untrusted_parquet(written(tmp_path, *BOMBS["one list of very many numbers"]), {"x"})


@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "none"}, {"data_page_version": "2.0"}, {"use_dictionary": False, "row_group_size": 100},
     {"write_page_index": True, "data_page_size": 100}],
)  # fmt: skip
def test_page_sizes_agree_with_the_parquet_metadata(tmp_path, options):
    path = tmp_path / "x.parquet"
    lists = pa.array([[float(place)] * (place % 7) or None for place in range(1_000)], pa.list_(pa.float32()))
    pq.write_table(pa.table({"x": lists, "text": [str(place) for place in range(1_000)]}), path, **options)
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    for column, name in enumerate(("x", "text")):
        pages = list(unpacked_pages(path, {name}))
        assert sum(values for values, _ in pages) == 4 * sum(group.column(column).num_values for group in groups)
        assert sum(page for _, page in pages) <= sum(group.column(column).total_uncompressed_size for group in groups)


@given(st.data())
def test_damaged_metadata_are_an_error_or_pages(tmp_path_factory, data):
    path = written(tmp_path_factory.mktemp("f"), pa.table({"x": [1, 2, 3]}))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content)
    with contextlib.suppress(ValueError):
        assert all(min(page) >= 0 for page in unpacked_pages(path, {"x"}))

"""Parquet files of others: every encoding of strings, and no more memory than the file suggests."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disent_core.storage.foreign import read_foreign_parquet


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
    table = read_foreign_parquet(written(tmp_path, pa.table({"text": strings, "other": [1, 2, 3]})), {"text"})
    assert table.column_names == ["text"]
    assert table.filter(pa.array([True, True, False]))["text"].to_pylist() == ["a", None]


def test_a_file_without_rows_keeps_its_columns(tmp_path):
    assert (
        read_foreign_parquet(written(tmp_path, pa.table({"text": pa.array([], pa.string())})), {"text"}).num_rows == 0
    )


BOMBS = {
    "many rows": [pa.table({"x": pa.array([0] * 1_000_000, pa.int64())})] * 10,
    "one long string in every row": [
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0] * 1_000), pa.array(["a" * 100_000]))})
    ],
    "the same as bytes": [
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0] * 1_000), pa.array([b"a" * 100_000]))})
    ],
    "long lists": [pa.table({"x": pa.array([[0.0] * 1_000_000] * 10)})],
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_small_file_can_not_fill_the_memory(tmp_path, what):
    path = written(tmp_path, *BOMBS[what])
    assert path.stat().st_size < 300_000
    with pytest.raises(ValueError, match="it unpacks to more than 64 MB"):
        read_foreign_parquet(path, {"x"})


def test_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"])
    with pytest.raises(ValueError, match="columns are named twice"):
        read_foreign_parquet(written(tmp_path, table), {"text"})

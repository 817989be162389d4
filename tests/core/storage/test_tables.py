"""Tables: schemas are kept, files are old or new and never between, equal content has one fingerprint."""

import datetime
import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from table_loops import loop_fingerprint

from disent_core.errors import DamagedError, TableError
from disent_core.storage.schemas import states_schema, vectors_schema
from disent_core.storage.tables import (
    SCHEMAS,
    conform,
    content_fingerprint,
    content_of,
    fingerprint,
    read_info,
    read_table,
    refresh_table,
    rows_table,
    safe_part,
    write_table,
)

POOL = SCHEMAS["negative_pool"]
ROW = {"corpus": "toy", "language": "en", "utterance_id": "1", "max_bleu": 0.5, "nearest_utterance_id": None}


def pool(*changes):
    return rows_table([ROW | change for change in changes], "negative_pool")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (lambda table: table.drop_columns(["max_bleu"]), r"missing or unknown columns: max_bleu;"),
        (lambda table: table.append_column("odd", pa.array([1])), r"missing or unknown columns: odd;"),
        (lambda table: table.set_column(3, "max_bleu", pa.array(["much"])), "a column has values of the wrong type"),
        (lambda table: table.set_column(3, "max_bleu", pa.array([[0.5]])), "a column has values of the wrong type"),
    ],
)
def test_a_table_of_another_schema_is_an_error_that_says_what_differs(changed, problem):
    with pytest.raises(TableError, match=f"pool: {problem}"):
        conform(changed(pool({})), POOL, "pool")


def test_nulls_are_kept_in_nullable_columns_and_refused_elsewhere():
    assert pool({})["nearest_utterance_id"].to_pylist() == [None]
    with pytest.raises(TableError, match="negative_pool: column 'max_bleu' has 2 nulls, but none are allowed"):
        pool({}, {"max_bleu": None}, {"max_bleu": None})


@pytest.mark.parametrize("name", SCHEMAS)
def test_no_rows_make_a_table_of_each_schema(name):
    assert rows_table([], name).schema.equals(SCHEMAS[name])


vector = st.lists(st.floats(0, 9, width=32), min_size=2, max_size=2)
short = st.text(max_size=2)
TYPES = {
    "text": (pa.string(), st.text(max_size=4)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | short, max_size=3)),
    "number": (pa.int64(), st.integers(-9, 9)),
    "share": (pa.float64(), st.floats(-9, 9).map(abs)),
    "flag": (pa.bool_(), st.booleans()),
    "pair": (
        pa.struct([("a", pa.string()), ("b", pa.int32())]),
        st.fixed_dictionaries({"a": st.none() | short, "b": st.integers(0, 3)}),
    ),
    "vector": (pa.list_(pa.float32(), 2), vector),
    "states": (pa.list_(pa.list_(pa.float32(), 2)), st.lists(vector, max_size=2)),
    "slots": (pa.list_(pa.struct([("old", pa.string())])), st.lists(st.fixed_dictionaries({"old": short}), max_size=2)),
    "time": (
        pa.timestamp("us", tz="UTC"),
        st.datetimes(min_value=datetime.datetime(2000, 1, 1), timezones=st.just(datetime.UTC)),
    ),
}
row = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()})
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])


def table_of(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(st.lists(row, max_size=6), st.data())
def test_equal_rows_have_one_fingerprint_however_they_are_laid_out(rows, data):
    table = table_of(rows)
    cut = data.draw(st.integers(0, len(rows)))
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    sliced = table_of([*rows[:1], *rows, *rows[-1:]]).slice(min(1, len(rows)), len(rows))
    assert content_fingerprint(table) == content_fingerprint(chunked) == content_fingerprint(sliced)


@given(st.lists(row, min_size=1, max_size=4), st.data())
def test_a_changed_value_or_null_changes_the_fingerprint(rows, data):
    index, name = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.sampled_from(sorted(TYPES)))
    value = data.draw(st.none() | TYPES[name][1])
    changed = [dict(row) for row in rows]
    changed[index][name] = value
    assume(table_of(changed) != table_of(rows))
    assert content_fingerprint(table_of(changed)) != content_fingerprint(table_of(rows))


@given(st.lists(st.text(max_size=4), max_size=20))
def test_the_fingerprint_of_texts_equals_a_loop(texts):
    assert content_fingerprint(pa.table({"a": pa.array(texts, pa.string())})) == loop_fingerprint("a", texts)


def test_names_types_ends_of_values_and_the_order_of_rows_are_content():
    tables = [pa.table({name: pa.array([1], kind)}) for name, kind in (("a", "int64"), ("b", "int64"), ("a", "int32"))]
    tables += [pa.table({"a": texts}) for texts in (["ab", "c"], ["c", "ab"], ["a", "bc"], ["abc", ""], ["abc", None])]
    tables += [pa.table({"a": texts}) for texts in ([["a"], ["b"]], [["a", "b"], []], [["a", "b"], None])]
    assert len({content_fingerprint(table) for table in tables}) == len(tables)


def test_the_fingerprint_of_parts_is_the_same_in_every_process_and_version():
    assert fingerprint("a", {"y": 1, "x": [2.5, None]}) == fingerprint("a", {"x": (2.5, None), "y": 1})
    canonical = b'["a",{"x":[2.5,null],"y":1}]'
    assert fingerprint("a", {"y": 1, "x": [2.5, None]}) == hashlib.sha256(canonical).hexdigest()[:32]


def test_a_name_that_windows_refuses_is_refused_there_only(monkeypatch):
    names = ["con", "NUL", "com1", "aux.v2", "facet."]
    assert [safe_part(name) for name in names] == names
    monkeypatch.setattr("sys.platform", "win32")
    for name in names:
        with pytest.raises(ValueError, match=r"can't be a file on Windows.*rename it"):
            safe_part(name)
    assert safe_part("console.v2") == "console.v2"


@given(st.text())
def test_a_safe_part_is_one_component_of_a_path(tmp_path_factory, name):
    base = tmp_path_factory.getbasetemp()
    try:
        part = safe_part(name)
    except ValueError:
        return
    assert (base / part).resolve().parent == base.resolve()


def test_a_written_table_is_read_back_with_columns_in_the_order_of_its_schema(tmp_path):
    table = pool({}, {"utterance_id": "2", "nearest_utterance_id": "1"})
    reordered = table.select(table.column_names[::-1])
    info = write_table(tmp_path / "pool.parquet", reordered, POOL, inputs="abc")
    assert read_table(tmp_path / "pool.parquet", POOL).equals(table)
    assert read_info(tmp_path / "pool.parquet") == info
    assert (info.rows, info.inputs_hash, info.content_hash) == (2, "abc", content_fingerprint(table))
    assert content_of(tmp_path / "pool.parquet") == info.content_hash
    assert read_table(tmp_path / "pool.parquet", POOL, ["max_bleu"]).to_pylist() == [{"max_bleu": 0.5}] * 2


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_vectors_and_states_are_read_to_the_bit(tmp_path, dtype):
    values = np.random.default_rng(0).standard_normal((6, 3)).astype(dtype)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 3)
    states = pa.ListArray.from_arrays(pa.array([0, 2, 6], pa.int32()), flat)
    for schema, table in (
        (vectors_schema(3, dtype), pa.table({"text_key": list("abcdef"), "vector": flat})),
        (states_schema(3, dtype), pa.table({"text_key": ["a", "b"], "states": states})),
    ):
        write_table(tmp_path / "x.parquet", table, schema, inputs="i")
        assert content_fingerprint(read_table(tmp_path / "x.parquet", schema)) == content_of(tmp_path / "x.parquet")


def test_a_missing_table_and_one_of_another_schema_are_errors(tmp_path):
    with pytest.raises(TableError, match=r"no\.parquet: this table does not exist\. Materialise"):
        read_table(tmp_path / "no.parquet", POOL)
    assert read_info(tmp_path / "no.parquet") is None
    odd = pa.table({"odd": [1]})
    write_table(tmp_path / "pool.parquet", odd, odd.schema, inputs="a")
    with pytest.raises(TableError, match=r"pool\.parquet: missing columns: corpus, "):
        read_table(tmp_path / "pool.parquet", POOL)


def test_a_table_is_recomputed_only_for_other_inputs_or_after_damage(tmp_path):
    path, calls = tmp_path / "pool.parquet", []

    def make():
        calls.append(1)
        return pool({})

    states = [refresh_table(path, POOL, inputs=inputs, make=make) for inputs in ("a", "a", "b", "a")]
    assert [state.is_reused for state in states] == [False, True, False, False]
    assert len(calls) == 3
    assert len({state.info.content_hash for state in states}) == 1
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedError, match=r"pool\.parquet: this file is not as it was written.*quarantined"):
        read_table(path, POOL)
    assert not refresh_table(path, POOL, inputs="a", make=make).is_reused
    path.write_bytes(path.read_bytes()[:50])
    assert not refresh_table(path, POOL, inputs="a", make=make).is_reused
    assert read_table(path, POOL).num_rows == 1


def test_equal_rows_have_equal_content_hashes_regardless_of_time(tmp_path):
    schema = pa.schema([("value", pa.float64()), ("created_at", pa.timestamp("us", tz="UTC"))])

    def content(value: float, year: int) -> str:
        row = {"value": value, "created_at": datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)}
        return write_table(tmp_path / "t.parquet", pa.Table.from_pylist([row], schema), schema, inputs="x").content_hash

    assert content(0.5, 2025) == content(0.5, 2026) != content(0.6, 2026)

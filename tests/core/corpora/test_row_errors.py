"""Faults that publishers ship are read around: no row changes its id, each is logged once, the counts are kept."""

from pathlib import Path

import pyarrow as pa
import pytest

from disent_core.corpora.row_errors import RowError, RowErrors, row_errors_of
from disent_core.errors import CorpusError
from disent_core.storage.tables import read_info, write_table

FILE = Path("lt.valid.conll")


def ids(published, rows=None):
    locations = [(FILE, line) for line in range(1, len(published) + 1)]
    return RowErrors().distinct(list(zip(locations, published, rows or range(len(published)), strict=True)))


def test_the_first_row_of_an_id_keeps_it_and_the_others_get_one_that_is_free():
    assert [key for key, _ in ids(["7", "7", "7-2", "7", "7-2", "a"])] == ["7", "7-3", "7-2", "7-4", "7-2-2", "a"]


def test_a_row_that_is_there_twice_is_left_out():
    assert ids(["7", "7", "7"], ["a", "b", "a"]) == [("7", "a"), ("7-2", "b")]


def left_out(*lines):
    row_errors = RowErrors()
    for line in lines:
        row_errors.leave_out(FILE, line, RowError(f"problem {line}", "a row is left out"))
    return row_errors


def test_a_file_of_which_half_of_the_rows_are_left_out_is_an_error_that_names_the_first():
    left_out(4, 9).check(3, FILE)
    with pytest.raises(CorpusError, match=r"^lt.valid.conll:4: problem 4. Correct this line"):
        left_out(4, 9).check(2, FILE)


def test_each_fault_of_a_file_is_logged_once_with_its_count(caplog):
    row_errors = left_out(4, 9)
    row_errors.repair(FILE, 5, "an id is made distinct")
    row_errors.log()
    assert caplog.messages == [
        "lt.valid.conll:4: a row is left out (2 in this file)",
        "lt.valid.conll:5: an id is made distinct (1 in this file)",
    ]


def test_the_counts_are_stored_with_the_rows_and_change_neither_content_nor_schema(tmp_path):
    table = pa.table({"text": ["a"]})
    plain = write_table(tmp_path / "plain.parquet", table, table.schema, inputs="i")
    noted = write_table(tmp_path / "noted.parquet", left_out(4).noted(table), table.schema, inputs="i")
    assert (plain.content_hash, plain.notes) == (noted.content_hash, "")
    stored = read_info(tmp_path / "noted.parquet")
    assert stored == noted
    assert row_errors_of(stored) == [
        {"file": "lt.valid.conll", "fault": "a row is left out", "count": 1, "first_line": 4}
    ]

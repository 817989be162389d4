"""Lines of text files, and files that are none."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core.corpora.lines import parallel_lines, read_lines, stored_text
from disent_core.corpora.paths import files_hash
from disent_core.corpora.row_errors import RowErrors
from disent_core.errors import AlignmentError, CorpusError
from disent_core.text import MARKERS, MASK


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("content", ["a\nb\n", "a\nb", "a\r\nb\r\n", "\ufeffa\nb\n", "\ufeffa\r\nb"])
def test_line_ends_and_byte_order_marks_are_none_of_the_text(tmp_path, content):
    assert read_lines(written(tmp_path, "f", content)) == ["a", "b"]


@pytest.mark.parametrize("inside", ["\u2028", "\x85", "\x0b", "\x0c", "\u2029", "\x1e", "a\rb"])
def test_only_a_line_feed_ends_a_line(tmp_path, inside):
    assert read_lines(written(tmp_path, "f", f"x{inside}y\nz\n")) == [f"x{inside}y", "z"]


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"), max_size=5), min_size=1)


@settings(deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_is_read(tmp_path_factory, lines, end):
    content = "".join(line + end for line in lines)
    assert read_lines(written(tmp_path_factory.mktemp("lines"), "f", content)) == lines


def test_an_empty_file_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match="this file is empty"):
        read_lines(written(tmp_path, "f", ""))


def test_a_line_that_is_not_utf_8_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"f:3: not UTF-8 .*Correct this line"):
        read_lines(written(tmp_path, "f", b"a\nb\ncaf\xe9\nd\n"))


@pytest.mark.parametrize("mark", [MASK, *sorted(MARKERS)])
def test_what_stands_for_masked_words_is_refused(mark):
    with pytest.raises(ValueError, match="stand for masked words"):
        stored_text(f"a {mark} b")


def test_stored_text_is_nfc_and_nothing_else_is_changed():
    assert stored_text(" cafe\u0301  now ") == " caf\u00e9  now "


def test_the_hash_is_that_of_names_and_bytes(tmp_path):
    one, other = written(tmp_path, "one", "ab"), written(tmp_path, "other", "c")
    before = files_hash([one, other])
    assert re.fullmatch("[0-9a-f]{64}", before)
    assert before == files_hash([one, other]) != files_hash([other, one])
    written(tmp_path, "one", "a"), written(tmp_path, "other", "bc")
    assert files_hash([one, other]) != before


# --- two files ---


def sides(tmp_path, left, right):
    return written(tmp_path, "p.en", left), written(tmp_path, "p.de", right)


def test_lines_that_are_blank_in_both_files_are_left_out(tmp_path):
    read = parallel_lines(*sides(tmp_path, "a\n\nc\n", "x\n \nz\n"), RowErrors())
    assert [list(map(str, column)) for column in read] == [["1", "3"], ["a", "c"], ["x", "z"]]


@pytest.mark.parametrize(
    ("left", "right", "place"), [("a\nb\nc\n", "x\ny\n", "p.en:3"), ("a\n", "x\ny\nz\n", "p.de:2")]
)
def test_files_of_unequal_length_are_named_with_the_first_line_too_many(tmp_path, left, right, place):
    message = rf"{place}: p.en has \d lines and p.de has \d; this one has no partner. Take both"
    with pytest.raises(AlignmentError, match=message):
        parallel_lines(*sides(tmp_path, left, right), RowErrors())


def test_a_pair_without_one_side_or_with_a_text_that_cannot_be_stored_is_left_out(tmp_path):
    row_errors = RowErrors()
    numbers, *_ = parallel_lines(*sides(tmp_path, "a\nb\nc\nd <mask>\ne\n", "x\n\nz\ny\nw\n"), row_errors)
    assert numbers.tolist() == [1, 3, 5]


def test_files_of_blank_lines_are_an_error(tmp_path):
    with pytest.raises(CorpusError, match="blank lines only"):
        parallel_lines(*sides(tmp_path, "\n\n", "\n\n"), RowErrors())

"""An index on disk is searched exactly, however its texts were added."""

import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from search_inputs import DIMS, added, vectors, words

from disent_core.errors import DamagedError, TableError
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.search import build
from disent_core.search.contents import CONTENTS, read_contents
from disent_core.search.parts import part_folder
from disent_core.search.stored import open_index
from disent_core.text import text_key

TEXTS = [*words(40), *words(30, "de", 30), *words(5, None, 100)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An index of many parts: three languages, added in blocks. Tests only read it."""
    folder = tmp_path_factory.mktemp("built") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_PART_TEXTS", 16)
        added(folder, TEXTS[:50])
        added(folder, TEXTS[50:53])
        added(folder, TEXTS[53:])
    return folder


@pytest.fixture
def folder(built, tmp_path):
    """A copy, which a test may change."""
    return shutil.copytree(built, tmp_path / "index")


@pytest.mark.parametrize("name", DIMS)
@pytest.mark.parametrize("k", [1, 7, 75])
def test_an_index_finds_what_a_search_of_all_its_vectors_finds(built, name, k):
    index, queries = open_index(built), vectors(["query", "a text 3", "b"])[name]
    all_vectors = vectors([text.text for text in TEXTS])[name]
    scores, rows = index.nearest(queries, name, k)
    expected_scores, expected = nearest(queries, all_vectors, k)
    np.testing.assert_array_equal(scores, expected_scores)
    np.testing.assert_array_equal(rows, expected)


def test_rows_are_numbered_in_the_order_in_which_texts_were_added(built):
    index = open_index(built)
    assert list(zip(index.texts, index.languages, strict=True)) == [(text.text, text.language) for text in TEXTS]
    assert index.texts[3:5] == [TEXTS[3].text, TEXTS[4].text]
    assert [key.decode() for key in index.keys] == [text_key(text.text) for text in TEXTS]


def test_only_the_languages_that_are_kept_are_searched(built):
    index, queries = open_index(built), vectors(["query"])["template"]
    scores, rows = index.nearest(queries, "template", 75, keep=lambda language: language == "de")
    assert {index.languages[int(row)] for row in rows[0, :30]} == {"de"}
    assert (rows[0, 30:] == -1).all()
    assert np.isneginf(scores[0, 30:]).all()


def test_a_text_may_be_left_out_in_every_language_and_leaves_k_others(built):
    index = open_index(built)
    text = "a text 33"  # in both languages
    _, rows = index.nearest(vectors([text])["template"], "template", 75, without=[text_key(text)])
    found = [index.texts[int(row)] for row in rows[0] if row >= 0]
    assert len(found) == 73
    assert text not in found
    index, queries = open_index(built), vectors(["a text 33", "b"])["template"]
    _, rows = index.nearest(queries, "template", 4, without=[text_key("a text 33"), text_key("b")])
    _, all_rows = index.nearest(queries, "template", 6)
    np.testing.assert_array_equal(rows, [all_rows[0, 2:], all_rows[1, :4]])


def test_equal_vectors_are_stored_once(built):
    index = open_index(built)
    part = index.contents.parts[0]
    assert np.load(part_folder(built, part.number) / "residual.npy").shape == (3, 3)


def flip(path):
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)


CHANGED, MISSING = "is not as it was written", r"can't be read \(No such file or directory\)"


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("template.npy", flip, CHANGED),
        ("template.groups.npy", flip, CHANGED),
        ("texts.parquet", flip, CHANGED),
        ("texts.parquet", Path.unlink, MISSING),
    ],
)
def test_a_changed_or_missing_file_is_refused(folder, name, damage, problem):
    damage(part_folder(folder, open_index(folder).contents.parts[0].number) / name)
    with pytest.raises(DamagedError, match=rf"{name}: this file {problem}. Run disent index"):
        open_index(folder).nearest(vectors(["query"])["template"], "template", 1)


def header(shape, kind="<f4"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize("name", ["template.npy", "template.groups.npy"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00\x88\x13" + b"(" * 5_000,
        header((-3, 3)),
        header((1 << 60, 3)),
        header((2, 3), "|O") + bytes(48),
        header((1 << 40,), "<i8"),
        header((16, 3), "<f8") + bytes(16 * 3 * 8),
        header((16,), "<i8") + np.full(16, 9).tobytes(),
    ],
    ids=["empty", "deep", "negative", "huge", "of objects", "too long", "of other numbers", "of other rows"],
)
def test_arrays_of_a_stranger_that_are_none_are_refused(folder, name, content):
    part = open_index(folder).contents.parts[0]
    (part_folder(folder, part.number) / name).write_bytes(content)
    listed = (folder / CONTENTS).read_text(encoding="utf-8")
    (folder / CONTENTS).write_text(listed.replace(part.files[name], sha256(content).hexdigest()), encoding="utf-8")
    with pytest.raises(DamagedError, match=r"its arrays are not those of an index.*\. Make a new index"):
        open_index(folder).nearest(vectors(["query"])["template"], "template", 1)


def test_a_folder_without_an_index_is_told(tmp_path):
    with pytest.raises(TableError, match=r"there is no index here. Make the index with disent index"):
        open_index(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format": 1', '"format": 2'),
        ('"format": 1', '"x'),
        ('"residual": 3', '"../x": 3'),
        ('"en"', "[]"),
        ('"noise": {', '"noise": {"x": 0.1,'),
    ],
)
def test_contents_of_another_kind_are_refused_in_one_line(folder, old, new):
    path = folder / CONTENTS
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(
        TableError, match=r"index.json: this is not the index.json of an index: .*\. Make the index with"
    ):
        open_index(folder)


def test_an_index_that_is_replaced_while_it_is_opened_is_opened_anew(folder, monkeypatch):
    old = read_contents(folder)
    added(folder, words(60, "en", 200))
    answers = iter([old])
    from disent_core.search import stored

    monkeypatch.setattr(stored, "read_contents", lambda path: next(answers, None) or read_contents(path))
    assert open_index(folder).contents.rows == len(TEXTS) + 60


def test_an_index_that_is_replaced_after_it_was_opened_has_to_be_opened_again(folder):
    index, queries = open_index(folder), vectors(["query"])
    index.nearest(queries["template"], "template", 1)
    added(folder, words(60, "en", 200))
    assert index.nearest(queries["template"], "template", 1)[1].min() >= 0  # its arrays are mapped
    with pytest.raises(TableError, match=r"texts were added to this index since it was opened. Open it again"):
        index.nearest(queries["residual"], "residual", 1)

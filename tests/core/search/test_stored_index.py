"""Texts are added to an index once, nothing that was added is lost, and the index on disk is searched exactly."""

import json
import logging
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from search_inputs import DIMS, HEAD, added, vectors, words

from disent_core.errors import DamagedError, TableError
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.search import build
from disent_core.search.contents import CONTENTS, read_contents, write_contents
from disent_core.search.noise import made_up
from disent_core.search.parts import part_folder
from disent_core.search.stored import open_index
from disent_core.text import text_key


class Counting:
    """Encodes, and counts the texts of the index; may fail at one of them."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.texts: list[str] = []
        self.measured = 0  # how often the level of noise was
        self.fails_at = fails_at

    def __call__(self, texts, language):
        if texts == made_up():
            self.measured += 1
        else:
            self.texts += texts
        if self.fails_at is not None and len(self.texts) > self.fails_at:
            raise KeyboardInterrupt
        return vectors(texts)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_PART_TEXTS", 16)
    return tmp_path / "index"


def test_only_new_texts_are_encoded(folder):
    added(folder, words(20))
    counting = Counting()
    report = added(folder, words(25), encode=counting)
    assert counting.texts == [text.text for text in words(5, first=20)]
    assert (report.read, report.new, report.rows) == (25, 5, 25)


def test_texts_are_added_without_reading_stored_ones(folder, monkeypatch):
    added(folder, words(40))
    with monkeypatch.context() as context:
        context.setattr(build, "read_texts", None)
        assert added(folder, words(41)).new == 1
    contents = read_contents(folder)
    for part in contents.parts:  # an index of a version without arrays of keys
        (part_folder(folder, part.number) / "keys.npy").unlink()
    without = [
        replace(part, files={name: part.files[name] for name in part.files if name != "keys.npy"})
        for part in contents.parts
    ]
    write_contents(folder, replace(contents, parts=tuple(without)))
    assert added(folder, words(42)).new == 1


def test_a_text_is_stored_once_a_language(folder):
    texts = [*words(60), *words(20, "de"), *words(60), *words(1, None), *words(1)]
    assert added(folder, texts).rows == 81
    assert added(folder, texts).new == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, r"head \(facet on tiny, en-de, seed 0\), not facet on t"),
        ({"fingerprint": "x"}, "version of facet on tiny, en-de, seed 0"),
        ({"encoder_fingerprint": "x"}, "version of facet on tiny, en-de, seed 0"),
    ],
)
def test_an_index_of_another_or_retrained_head_is_refused(folder, change, message):
    added(folder, words(3))
    with pytest.raises(TableError, match=f"this index was made with another {message}"):
        added(folder, words(3), replace(HEAD, **change))


@pytest.mark.parametrize("name", ["mine", "part-x", "part-00001"])
def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(TableError, match=r"this folder has other files. Name a new folder"):
        added(tmp_path, words(3))
    assert {path.name for path in tmp_path.iterdir()} == {name}


def test_the_noise_level_is_remeasured_after_ten_percent_new_texts(folder):
    added(folder, words(20))
    before = read_contents(folder).level
    assert {*before} == {*read_contents(folder).embeddings}
    counting = Counting()
    added(folder, words(21), encode=counting)
    added(folder, words(22), encode=counting)
    assert (read_contents(folder).level, counting.measured) == (before, 0)
    added(folder, words(23), encode=counting)
    assert counting.measured == 1
    assert read_contents(folder).level != before


def test_a_run_killed_after_storing_many_texts_clears_the_noise_level(folder):
    added(folder, words(20))
    with pytest.raises(KeyboardInterrupt):
        added(folder, words(60), encode=Counting(fails_at=30))
    assert read_contents(folder).level is None


def test_a_killed_run_keeps_what_it_has_stored(folder):
    with pytest.raises(KeyboardInterrupt):
        added(folder, words(50), encode=Counting(fails_at=40))
    assert open_index(folder).contents.rows == 32
    counting = Counting()
    assert added(folder, words(50), encode=counting).rows == 50
    assert len(counting.texts) == 18


@pytest.mark.parametrize("function", ["write_contents", "write_part", "_remove_others", "_join"])
@pytest.mark.parametrize("call", [1, 2])
def test_a_kill_at_any_step_leaves_a_whole_index(folder, monkeypatch, function, call):
    added(folder, words(20))
    before = open_index(folder).contents
    calls = []

    def killed(*arguments, **named):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    real = getattr(build, function)
    with monkeypatch.context() as patch:
        patch.setattr(build, function, killed)
        try:
            added(folder, words(40))
        except KeyboardInterrupt:
            assert open_index(folder).contents.rows >= before.rows
    assert added(folder, words(40)).rows == 40
    index = open_index(folder)
    assert list(index.texts) == [text.text for text in words(40)]
    kept = {part_folder(folder, part.number).name for part in index.contents.parts}
    assert {path.name for path in folder.glob("part-*")} == kept


def test_parts_are_joined_when_many_texts_are_loose(folder):
    added(folder, words(100))
    assert [part.rows for part in read_contents(folder).parts] == [100]
    added(folder, words(5, first=100))
    assert [part.rows for part in read_contents(folder).parts] == [100, 5]
    added(folder, words(10, first=105))
    assert [part.rows for part in read_contents(folder).parts] == [115]


@pytest.fixture
def three_parts(folder, monkeypatch):
    """An index of 107 texts in three parts, and the folder of the first, which has a hundred."""
    monkeypatch.setattr(build, "_PART_TEXTS", 64)
    added(folder, words(100))
    added(folder, words(5, first=100))
    added(folder, words(2, "de"))
    return part_folder(folder, read_contents(folder).parts[0].number)


ALL_TEXTS = [*words(105), *words(2, "de")]


def nearest_by_template(folder) -> list[str]:
    index = open_index(folder)
    _, rows = index.nearest(vectors(["b text 1"])["template"], "template", 2)
    return [index.texts[int(row)] for row in rows[0]]


@pytest.mark.parametrize("name", ["template.npy", "texts.parquet"])
def test_a_damaged_part_is_rebuilt_from_its_vectors(folder, three_parts, name, caplog):
    (three_parts / name).write_bytes(b"x")
    with caplog.at_level(logging.WARNING):
        report = added(folder, words(3), encode=(counting := Counting()))
    assert f"{name}: this file is not as it was written" in caplog.text
    assert (counting.texts, report.new, report.rows, report.mended, report.lost) == ([], 0, 107, 100, 0)
    assert list(open_index(folder).texts) == [text.text for text in ALL_TEXTS]
    assert nearest_by_template(folder) == ["b text 1", "b text 1"]


@pytest.mark.parametrize("break_it", [lambda path: path.write_bytes(b"x"), lambda path: path.unlink()])
def test_a_part_without_its_vectors_is_encoded_again_from_its_texts(folder, three_parts, break_it):
    break_it(three_parts / "embeddings.parquet")
    report = added(folder, words(1, "fr"), encode=(counting := Counting()))
    assert counting.texts == [text.text for text in [*words(100), *words(1)]]
    assert (report.new, report.rows, report.mended, report.lost) == (1, 108, 100, 0)
    assert list(open_index(folder).texts) == [text.text for text in [*ALL_TEXTS, *words(1, "fr")]]
    assert nearest_by_template(folder) == ["b text 1", "b text 1"]
    assert not three_parts.exists()


def test_a_part_without_readable_texts_is_quarantined(folder, three_parts):
    for name in ("embeddings.parquet", "texts.parquet"):
        (three_parts / name).write_bytes(b"x")
    report = added(folder, words(3), encode=(counting := Counting()))
    assert counting.texts == [text.text for text in words(3)]
    assert (report.rows, report.mended, report.lost) == (10, 0, 100)
    kept = [*words(5, first=100), *words(2, "de"), *words(3)]
    assert list(open_index(folder).texts) == [text.text for text in kept]
    (aside,) = folder.glob("damaged-*")
    assert (aside / "texts.parquet").read_bytes() == b"x"
    assert (aside / "template.npy").is_file()


def test_a_kill_while_a_part_is_encoded_again_loses_nothing(folder, three_parts):
    (three_parts / "embeddings.parquet").unlink()
    with pytest.raises(KeyboardInterrupt):
        added(folder, [], encode=Counting(fails_at=40))
    assert added(folder, []).mended == 100
    assert list(open_index(folder).texts) == [text.text for text in ALL_TEXTS]


def test_indexing_no_texts_makes_an_empty_index(folder):
    assert added(folder, []).rows == 0
    assert len(open_index(folder).texts) == 0
    assert (folder / CONTENTS).is_file()


TEXTS = [*words(40), *words(30, "de", 30), *words(5, None, 100)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An index of many parts: three languages, added in blocks. Tests only read it."""
    copied = tmp_path_factory.mktemp("built") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_PART_TEXTS", 32)
        added(copied, TEXTS[:50])
        added(copied, TEXTS[50:53])
        added(copied, TEXTS[53:])
    return copied


@pytest.fixture
def copied(built, tmp_path):
    return shutil.copytree(built, tmp_path / "index")


@pytest.mark.parametrize("name", DIMS)
@pytest.mark.parametrize("k", [7, 75])
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


def test_excluding_a_text_applies_to_all_languages_and_keeps_k_hits(built):
    index, queries = open_index(built), vectors(["a text 33", "b"])["template"]
    _, rows = index.nearest(queries, "template", 4, without=[text_key("a text 33"), text_key("b")])
    _, all_rows = index.nearest(queries, "template", 6)
    assert {index.texts[int(row)] for row in all_rows[0, :2]} == {"a text 33"}  # in both languages
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
def test_a_changed_or_missing_file_is_refused(copied, name, damage, problem):
    damage(part_folder(copied, open_index(copied).contents.parts[0].number) / name)
    with pytest.raises(DamagedError, match=rf"{name}: this file {problem}. Run disent index"):
        open_index(copied).nearest(vectors(["query"])["template"], "template", 1)


def header(shape, kind="<f4"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("template.npy", b""),
        ("template.npy", b"\x93NUMPY\x01\x00\x88\x13" + b"(" * 5_000),
        ("template.npy", header((-3, 3))),
        ("template.npy", header((1 << 60, 3))),
        ("template.npy", header((2, 3), "|O") + bytes(48)),
        ("template.npy", header((32, 3), "<f8") + bytes(32 * 3 * 8)),
        ("template.groups.npy", header((32,), "<i8") + np.full(32, 32).tobytes()),
        ("keys.npy", b""),
        ("keys.npy", header((1 << 40,), "<i8")),
        ("keys.npy", header((32,), "<i8") + bytes(32 * 8)),
    ],
    ids=["empty", "deep", "negative", "huge", "objects", "other numbers", "other rows", "no keys", "long", "no text"],
)
def test_forged_index_arrays_are_refused(copied, name, content):
    part = open_index(copied).contents.parts[0]
    (part_folder(copied, part.number) / name).write_bytes(content)
    listed = (copied / CONTENTS).read_text(encoding="utf-8")
    (copied / CONTENTS).write_text(listed.replace(part.files[name], sha256(content).hexdigest()), encoding="utf-8")
    with pytest.raises(DamagedError, match=r"its arrays are not those of an index.*\. Make a new index"):
        added(copied, words(1)) if name == "keys.npy" else open_index(copied).nearest(
            vectors(["query"])["template"], "template", 1
        )


def bomb(rows):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows), pa.array(["a" * 100_000]))
    strings = pa.array(["a" * 32] * rows)
    return pa.table({"row": pa.array(range(rows)), "text_key": strings, "text": texts, "language": strings})


def signed_texts(copied, parts, table, name="texts.parquet"):
    """Replace the texts of some parts, as their maker can."""
    contents = json.loads((copied / CONTENTS).read_text(encoding="utf-8"))
    for part in contents["parts"][:parts]:
        path = part_folder(copied, part["number"]) / name
        pq.write_table(table, path)
        part["files"][name] = sha256(path.read_bytes()).hexdigest()
        part["rows"] = len(table)
    (copied / CONTENTS).write_text(json.dumps(contents), encoding="utf-8")


@pytest.mark.parametrize(("parts", "rows"), [(1, 1_000), (3, 300)], ids=["one part", "all together"])
def test_small_files_of_texts_can_not_fill_the_memory(copied, parts, rows):
    signed_texts(copied, parts, bomb(rows))
    with pytest.raises(DamagedError, match=r"texts.parquet: these are not the texts of an index \(it unpacks to more"):
        open_index(copied)


@pytest.mark.parametrize(
    "table",
    [bomb(2).drop_columns("text"), bomb(2).set_column(0, "row", pa.array(["x", "y"]))],
    ids=["a column is missing", "of other types"],
)
def test_forged_index_texts_are_refused(copied, table):
    signed_texts(copied, 1, table)
    message = r"texts.parquet: these are not the texts of an index.*\. Make a new index"
    with pytest.raises(DamagedError, match=message) as refused:
        open_index(copied)
    assert "\n" not in str(refused.value)


def strangers_vectors(rows, dim=5, value=0.0):
    strings, flat = pa.repeat("a" * 32, rows), pa.repeat(pa.scalar(value, pa.float32()), rows * dim)
    columns = {"row": pa.repeat(0, rows), **dict.fromkeys(("text_key", "text", "language"), strings)}
    widths = {"template": dim, "residual": 3}
    lists = {name: pa.FixedSizeListArray.from_arrays(flat[: rows * width], width) for name, width in widths.items()}
    return pa.table({**columns, **lists})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (strangers_vectors(1_000_000), "it unpacks to more"),
        (strangers_vectors(2, dim=6), "size"),
        (strangers_vectors(2, value=None), "a value is missing"),
        (strangers_vectors(2).drop_columns("residual"), "residual"),
        (strangers_vectors(2).set_column(1, "text_key", pa.array(["x", None])), "a value is missing"),
        (strangers_vectors(2).set_column(1, "text_key", pa.array(["x", "y"])), "a text_key is not 32 hexadecimal"),
    ],
    ids=["a bomb", "another width", "no numbers", "no column", "no key", "other keys"],
)
def test_adding_texts_to_an_index_with_forged_vectors_is_refused(copied, table, problem):
    part = open_index(copied).contents.parts[0]
    signed_texts(copied, 1, table, "embeddings.parquet")
    (part_folder(copied, part.number) / "texts.parquet").unlink()  # so that the part is stored again from its vectors
    with pytest.raises(DamagedError, match=rf"embeddings.parquet: these are not the texts of an index \(.*{problem}"):
        added(copied, words(1, "fr"))


@pytest.mark.parametrize("of_stranger", ['"template": 6', '"mine": 5'])
def test_adding_texts_to_an_index_with_unknown_embeddings_is_refused(copied, of_stranger):
    path = copied / CONTENTS
    contents = json.loads(path.read_text(encoding="utf-8").replace('"template": 5', of_stranger))
    path.write_text(json.dumps({**contents, "noise": None}), encoding="utf-8")
    with pytest.raises(TableError, match=r"embedding (template of 6|mine of 5) numbers, which its head does not give"):
        added(copied, words(1, "fr"))


def test_contents_that_are_too_large_are_refused_before_they_are_read(copied):
    with (copied / CONTENTS).open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(TableError, match=r"index.json: .* it has more than 67,108,864 bytes"):
        open_index(copied)


def test_opening_a_folder_without_an_index_names_the_remedy(tmp_path):
    with pytest.raises(TableError, match=r"there is no index here. Make the index with disent index"):
        open_index(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format": 1', '"format": 2'),
        ('"format": 1', '"x'),
        ('"residual": 3', '"residual": 1000000000'),
        ('"number": ', '"number": -'),
        ('"seed": 0', '"seed": true'),
        ('"places": []', f'"places": ["{"a" * 5_000}"]'),
        ('"en"', "[]"),
        ('"noise": {', '"noise": {"x": 0.1,'),
    ],
)
def test_contents_of_another_kind_are_refused_in_one_line(copied, old, new):
    path = copied / CONTENTS
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(
        TableError, match=r"index.json: this is not the index.json of an index: .*\. Make the index with"
    ):
        open_index(copied)


def test_an_index_replaced_during_opening_is_reopened(copied, monkeypatch):
    old = read_contents(copied)
    added(copied, words(60, "en", 200))
    answers = iter([old])
    from disent_core.search import stored

    monkeypatch.setattr(stored, "read_contents", lambda path: next(answers, None) or read_contents(path))
    assert open_index(copied).contents.rows == len(TEXTS) + 60


def test_an_opened_index_that_is_replaced_asks_to_be_reopened(copied):
    index, queries = open_index(copied), vectors(["query"])
    index.nearest(queries["template"], "template", 1)
    added(copied, words(60, "en", 200))
    assert index.nearest(queries["template"], "template", 1)[1].min() >= 0  # its arrays are mapped
    with pytest.raises(TableError, match=r"texts were added to this index since it was opened. Open it again"):
        index.nearest(queries["residual"], "residual", 1)

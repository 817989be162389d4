"""A user's own texts are read strictly: an error names the file, the line and what to do."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disent_core.errors import CorpusError
from disent_core.search.texts import Text, checked_texts, text_file

ROWS = [("wake me up", "en"), ("weck mich", "de"), ("mañana", None)]


def written(folder, name: str, content: str | bytes):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_lines_are_texts(tmp_path):
    path = written(tmp_path, "texts.log", "\ufeffwake me up\r\nweck mich\nman\u0303ana")
    assert list(text_file(path, language="xx")) == [Text(text, "xx") for text, _ in ROWS]


def test_json_lines_have_a_text_and_may_have_a_language(tmp_path):
    lines = [json.dumps({"utt": text, "language": language, "more": 1}) for text, language in ROWS]
    path = written(tmp_path, "texts.jsonl", "\n".join(lines))
    assert list(text_file(path, column="utt")) == [Text(*row) for row in ROWS]
    assert [row.language for row in text_file(path, column="utt", language="es")] == ["en", "de", "es"]


def test_csv_has_a_header_and_quoted_line_ends(tmp_path):
    path = written(tmp_path, "texts.csv", 'language,text\nen,wake me up\nde,"weck, ""mich""\nbitte"\n,x\n')
    expected = [Text("wake me up", "en"), Text('weck, "mich"\nbitte', "de"), Text("x", None)]
    assert list(text_file(path)) == expected


STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", STRINGS)
def test_parquet_has_columns_of_any_string_type(tmp_path, kind):
    texts, languages = zip(*ROWS, strict=True)
    table = pa.table({"vector": [[1.0]] * 3, "text": pa.array(texts).cast(kind), "language": pa.array(languages)})
    pq.write_table(table, tmp_path / "texts.parquet")
    assert list(text_file(tmp_path / "texts.parquet")) == [Text(*row) for row in ROWS]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.txt", "a\n\nb", r"x.txt:2: the sentence is empty. Correct it or leave it out"),
        ("x.txt", b"a\nb\xff", r"x.txt:2: not UTF-8 .*Save the file as UTF-8"),
        ("x.txt", "a\n" + "b" * 10_001, r"x.txt:2: a text of 10,001 characters; shorten it to at most 10,000"),
        ("x.txt", b"a" * 1_000_001, r"x.txt:1: a line of more than 1,000,000 bytes"),
        ("x.txt", "a <mask> b", r"x.txt:1: the sentence has '<mask>', reserved for masked words"),
        ("x.txt", "", r"x.txt: no texts were read. Name a file with at least one text"),
        ("x.jsonl", '{"text": "a"}\n{"utt": "b"}', r"x.jsonl:2: expected an object with 'text' \(--column names"),
        ("x.jsonl", '{"text": "a"}\n{', r"x.jsonl:2: not valid JSON: Expecting property name .* at column 2\. "),
        ("x.jsonl", '{"text": "a"}\n\n{"text": "b"}', r"x.jsonl:2: there is no text"),
        ("x.jsonl", '{"text": 7}', r"x.jsonl:1: the text is 7, not a string"),
        ("x.jsonl", '{"text": "\\ud800"}', r"x.jsonl:1: .*surrogates"),
        ("x.jsonl", '{"text": "a", "language": 3}', r"x.jsonl:1: the language is 3, not a string"),
        ("x.jsonl", "[" * 100_000, r"x.jsonl:1: the JSON is nested too deeply"),
        ("x.csv", "a,b\n1,2", r"x.csv: there is no column 'text', only a, b. Name the column of the texts"),
        ("x.csv", "text,b\n1,2\n3", r"x.csv:3: 1 fields, where the header has 2"),
        ("x.csv", 'text\n"a" b', r"x.csv:2: .*expected after"),
        ("x.csv", 'text\n"' + "a\n" * 100_000, r"x.csv:\d+: field larger than field limit"),
        ("x.csv", "", r"x.csv: the file is empty. Name a file with at least one text"),
        ("x.parquet", "text", r"x.parquet: not a Parquet file \("),
    ],
)
def test_the_error_of_a_malformed_text_file_names_the_place(tmp_path, name, content, problem):
    with pytest.raises(CorpusError, match=problem):
        text_file(written(tmp_path, name, content)).count()


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["x" * 1_000_000] * 70, "x.parquet:1: it unpacks to more than 64 MB"),
        (["a", None], "x.parquet:2: there is no text"),
    ],
)
def test_a_parquet_file_with_nulls_or_a_decompression_bomb_is_refused(tmp_path, texts, problem):
    pq.write_table(pa.table({"text": texts}), tmp_path / "x.parquet", compression="zstd")
    with pytest.raises(CorpusError, match=problem):
        text_file(tmp_path / "x.parquet").count()


def test_another_kind_of_file_and_a_missing_one_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in .txt, .log, .jsonl, .csv, .parquet"):
        text_file(tmp_path / "x.docx")
    with pytest.raises(CorpusError, match=r"x.txt: there is no such file. Check the path"):
        text_file(tmp_path / "x.txt")


def test_texts_outside_the_languages_of_the_head_are_refused():
    assert list(checked_texts(["a"], "de", {"de", "en"})) == [Text("a", "de")]
    with pytest.raises(CorpusError, match="texts:1: no language is named, and the head needs one of de, en"):
        list(checked_texts(["a"], None, {"en", "de"}))
    with pytest.raises(CorpusError, match="texts:1: the language is 'fr', and the head needs one of de, en"):
        list(checked_texts(["a"], "fr", {"en", "de"}))

"""Vectors made elsewhere: every form of file, what is refused, and the way into the tables."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disent_core.embeddings.arrays import Texts
from disent_core.embeddings.store import EmbeddingStore
from disent_core.encoders import LazyEncoder
from disent_core.encoders.contract import Encoder
from disent_core.encoders.kinds import vectors as imported
from disent_core.encoders.kinds.vectors import ImportedVectors, VectorsConfig
from disent_core.errors import EncoderError
from disent_core.storage import text_columns, untrusted
from disent_core.text import text_key, text_keys

TEXTS = ["weck mich um neun", "spiele jazz", "wie wird das wetter", "stopp"]
MATRIX = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Every file has several pieces, and every search for texts several blocks."""
    monkeypatch.setattr(untrusted, "_BATCH_ROWS", 2)
    monkeypatch.setattr(imported, "_BATCH_TEXTS", 3)
    monkeypatch.setattr(text_columns, "BLOCK", 2)


def write(path: Path, texts=TEXTS, matrix=MATRIX, *, column="text", kind=None, language=None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = text_keys(texts) if column == "text_key" else texts
    kind = kind or pa.list_(pa.float32())
    rows = [np.asarray(row, dtype=kind.value_type.to_pandas_dtype()) for row in matrix]
    columns = {column: names, "vector": pa.array(rows, kind)}
    pq.write_table(pa.table(columns | ({} if language is None else {"language": language})), path)
    return path


def write_matrix(path: Path, texts=TEXTS, matrix=MATRIX) -> Path:
    np.save(path, matrix)
    path.with_suffix(".txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def write_lines(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def columns(**values):
    """Make a form of these columns of a Parquet file; those below, of other files."""
    return lambda folder: pq.write_table(pa.table(values), folder / "v.parquet") or folder / "v.parquet"


def parquet(*given, **how):
    return lambda folder: write(folder / "v.parquet", *given, **how)


def json_lines(*rows):
    return lambda folder: write_lines(folder / "v.jsonl", rows)


def npy(*given, **how):
    return lambda folder: write_matrix(folder / "v.npy", *given, **how)


def damaged(name):
    return lambda folder: (folder / name).write_bytes(b"PAR1 no more") and folder / name


def lines(folder):
    rows = zip(TEXTS, MATRIX.tolist(), strict=True)
    return write_lines(folder / "v.jsonl", [{"text": text, "vector": vector} for text, vector in rows])


def lines_of_two_languages(folder):
    """As `disent export-texts` writes them, with a vector."""
    rows = [
        {"text_key": key, "language": language, "text": text, "vector": (sign * vector).tolist()}
        for language, sign in (("en", -1), ("de", 1))
        for key, text, vector in zip(text_keys(TEXTS), TEXTS, MATRIX, strict=True)
    ]
    return write_lines(folder / "v.jsonl", rows)


def config(path, **changed):
    return VectorsConfig(**({"name": "other", "path": str(path)} | changed))


def encode(encoder, texts):
    batches = list(encoder.encode(texts, states=False))
    indices = np.concatenate([batch.indices for batch in batches])
    return np.concatenate([batch.vectors for batch in batches])[np.argsort(indices)]


def in_a_folder(folder):
    write(folder / "v" / "a.parquet", TEXTS[:1], MATRIX[:1])
    write_matrix(folder / "v" / "b.npy", TEXTS[1:], MATRIX[1:])
    return folder / "v"


def by_language_name(folder):
    write(folder / "de.parquet")
    write(folder / "en.parquet", TEXTS, -MATRIX)
    return folder / "{language}.parquet"


def by_language_folder(folder):
    write(folder / "of-de" / "part.parquet")
    write(folder / "of-en" / "part.parquet", TEXTS, -MATRIX)
    return folder / "of-{language}"


def by_column(folder):
    languages = ["en"] * 4 + ["de"] * 4
    return write(folder / "both.parquet", TEXTS * 2, np.concatenate([-MATRIX, MATRIX]), language=languages)


FORMS = {
    "text": parquet(),
    "text_key": parquet(column="text_key"),
    "fixed-size lists": parquet(kind=pa.list_(pa.float32(), 3)),
    "large lists": parquet(kind=pa.large_list(pa.float64())),
    "half precision": parquet(kind=pa.list_(pa.float16())),
    "string views": columns(text=pa.array(TEXTS, pa.string_view()), vector=MATRIX.tolist()),
    "JSON lines": lines,
    "JSON lines of two languages": lines_of_two_languages,
    "matrix": npy(),
    "matrix of doubles": npy(matrix=MATRIX.astype(np.float64)),
    "folder": in_a_folder,
    "language in the name": by_language_name,
    "language in the folder": by_language_folder,
    "language in a column": by_column,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_gives_each_text_its_vector(tmp_path, form):
    encoder = ImportedVectors(config(form(tmp_path)), "de")
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.dim) == ("other", 3)
    wanted = [TEXTS[2], TEXTS[0], TEXTS[3]]
    np.testing.assert_allclose(encode(encoder, wanted), MATRIX[[2, 0, 3]], atol=1e-3)


def test_a_text_is_found_in_whatever_form_its_accents_have(tmp_path):
    composed, decomposed = "f\u00fcnf", "fu\u0308nf"
    encoder = ImportedVectors(config(write(tmp_path / "v.parquet", [decomposed], MATRIX[:1])), "de")
    np.testing.assert_array_equal(encode(encoder, [composed]), MATRIX[:1])


def test_many_texts_come_in_batches(tmp_path):
    encoder = ImportedVectors(config(write(tmp_path / "v.parquet")), "de")
    assert [len(batch.indices) for batch in encoder.encode(TEXTS, states=False)] == [3, 1]
    np.testing.assert_array_equal(encode(encoder, TEXTS), MATRIX)


def test_the_error_of_texts_without_vectors_counts_them_and_names_a_remedy(tmp_path):
    write(tmp_path / "de.parquet")
    encoder = ImportedVectors(config(tmp_path / "{language}.parquet"), "de")
    with pytest.raises(EncoderError) as caught:
        next(encoder.encode([*TEXTS, "halt", "los"], states=False))
    assert str(caught.value).startswith(f"{tmp_path}/de.parquet: 2 of 6 texts of 'de' have no vector, e.g. 'halt'.")
    assert "Run `disent materialize '+group:targets'`" in str(caught.value)
    assert "`disent export-texts FILE --encoder other --missing`" in str(caught.value)


def test_token_states_and_a_model_to_tune_are_refused(tmp_path):
    encoder = ImportedVectors(config(write(tmp_path / "v.parquet")), "de")
    with pytest.raises(EncoderError, match="no token states"):
        next(encoder.encode(TEXTS, states=True))
    with pytest.raises(EncoderError, match="no model to tune"):
        _ = LazyEncoder(config(write(tmp_path / "v.parquet")), tmp_path).files


def with_value(value):
    matrix = MATRIX.astype(np.float64)
    matrix[2, 1] = value
    return matrix


def two_widths(folder):
    write(folder / "v" / "a.parquet", TEXTS[:1], MATRIX[:1])
    write(folder / "v" / "b.parquet", TEXTS[1:], MATRIX[1:, :2])
    return folder / "v"


def twice_in_two_files(folder):
    write(folder / "v" / "a.parquet")
    write(folder / "v" / "b.parquet", ["neu", TEXTS[1]], MATRIX[:2])
    return folder / "v"


MALFORMED = {
    "no JSON": (damaged("v.jsonl"), r"v\.jsonl: this can't be read as JSON lines \("),
    "JSON lines that are no objects": (json_lines([1]), "must be an object"),
    "a vector of words": (json_lines({"text": "a", "vector": ["one"]}), r"v\.jsonl: this can't be read as JSON lines"),
    "too large for float32": (
        parquet(matrix=with_value(1e300), kind=pa.list_(pa.float64())),
        r"v\.parquet:3: .*beyond float32.*'wie wird das wetter'",
    ),
    "NaN in a matrix": (npy(matrix=with_value(np.nan)), r"v\.npy:3: "),
    "a missing number": (columns(text=TEXTS[:2], vector=[[1.0, 2.0], [1.0, None]]), r"v\.parquet:2: .*not finite"),
    "a vector of another width": (
        columns(text=TEXTS[:3], vector=[[1.0, 2.0], [1.0, 2.0], [1.0]]),
        r"v\.parquet:3: a vector of 1 dimensions, where the first has 2",
    ),
    "no vector": (columns(text=TEXTS[:2], vector=[[1.0, 2.0], None]), r"v\.parquet:2: a vector of 0 dimensions"),
    "files of two widths": (two_widths, r"b\.parquet: vectors have 2 dimensions, and those of .*a\.parquet have 3"),
    "a text twice": (
        parquet(["f\u00fcnf", "x", "fu\u0308nf", "y"]),
        r"v\.parquet:3: text .* already has a vector, in .*v\.parquet:1\. Keep one",
    ),
    "a text in two files": (twice_in_two_files, r"b\.parquet:2: text 'spiele jazz' .*a\.parquet:2\."),
    "a text twice in a language": (
        parquet([*TEXTS[:3], TEXTS[1]], language=["en", "de", "de", "de"]),
        r"v\.parquet:4: text 'spiele jazz' .*v\.parquet:2\.",
    ),
    "no text": (columns(text=["a", None], vector=[[1.0], [2.0]]), r"v\.parquet:2: text is null"),
    "other columns": (columns(sentence=["a"], vector=[[1.0]]), r"Name them vector, and text"),
    "whole numbers": (columns(text=["a"], vector=[[1]]), r"vector has type .*int64"),
    "fewer lines than rows": (npy(TEXTS[:3]), r"3 lines in v\.txt, but 4 vectors"),
    "no Parquet": (damaged("v.parquet"), r"v\.parquet: this can't be read as Parquet"),
    "no matrix": (damaged("v.npy"), r"v\.npy: this matrix and its texts can't be read"),
}


@pytest.mark.parametrize(("form", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_files_are_named_with_the_row(tmp_path, form, message):
    with pytest.raises(EncoderError, match=message):
        ImportedVectors(config(form(tmp_path)), "de")


def test_the_fingerprint_depends_on_content_and_not_on_path(tmp_path):
    first = LazyEncoder(config(write(tmp_path / "a" / "v.parquet")), tmp_path)
    copy = shutil.copytree(tmp_path / "a", tmp_path / "b") / "v.parquet"
    assert LazyEncoder(config(copy, name="renamed"), tmp_path).fingerprint == first.fingerprint
    assert first.fingerprint == ImportedVectors(first.config, "de").fingerprint
    assert LazyEncoder(replace(first.config, vector_dtype="float16"), tmp_path).fingerprint != first.fingerprint


@pytest.mark.parametrize(
    "form", [FORMS["text"], lines, FORMS["matrix"], in_a_folder], ids=["parquet", "lines", "matrix", "folder"]
)
def test_the_fingerprint_changes_with_one_vector_or_one_text(tmp_path, form):
    encoder = LazyEncoder(config(form(tmp_path)), tmp_path)
    before = encoder.fingerprint
    for file in sorted(tmp_path.rglob("*.*")):
        content, stamp = file.read_bytes(), file.stat()
        file.write_bytes(content[:-2] + b"x" + content[-1:])
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
        assert encoder.fingerprint != before
        file.write_bytes(content)
        assert encoder.fingerprint == before


def test_the_fingerprint_depends_on_the_language_of_each_file(tmp_path):
    by_language_name(tmp_path)
    encoder = LazyEncoder(config(tmp_path / "{language}.parquet"), tmp_path)
    before = encoder.fingerprint
    for old, new in (("de", "x"), ("en", "de"), ("x", "en")):
        (tmp_path / f"{old}.parquet").rename(tmp_path / f"{new}.parquet")
    assert encoder.fingerprint != before


def test_the_error_of_missing_vector_files_names_a_remedy(tmp_path):
    write(tmp_path / "de.parquet")
    with pytest.raises(EncoderError, match=r"ja\.parquet: there are no vectors of 'ja' here\. Run `disent materialize"):
        ImportedVectors(config(tmp_path / "{language}.parquet"), "ja")
    with pytest.raises(EncoderError, match=r"none\.parquet: there are no vectors here\. Run `disent materialize"):
        _ = LazyEncoder(config(tmp_path / "none.parquet"), tmp_path).fingerprint


def test_vectors_go_into_the_tables_once(tmp_path):
    lazy = LazyEncoder(config(write(tmp_path / "v.parquet")), tmp_path)
    store = EmbeddingStore(tmp_path / "home", encoder="other", fingerprint=lazy.fingerprint, language="de")
    texts = {text_key(text): text for text in TEXTS[:3]}
    assert [store.add(lazy.load("de"), Texts.of_mapping(texts)).encoded for _ in range(2)] == [3, 0]
    more = store.add(lazy.load("de"), Texts.of_mapping({text_key(text): text for text in TEXTS}))
    assert (more.encoded, more.reused, more.tokens) == (1, 3, 0)
    table = store.open_vectors()
    np.testing.assert_array_equal(table.matrix[table.rows(text_keys(TEXTS))], MATRIX)


def test_known_keys_are_those_of_the_language_or_empty_without_files(tmp_path):
    write(tmp_path / "de.parquet", TEXTS[:2], MATRIX[:2])
    settings = config(tmp_path / "{language}.parquet")
    assert settings.known_keys("de").to_pylist() == text_keys(TEXTS[:2])
    assert settings.known_keys("en").to_pylist() == []


def test_a_path_may_contain_glob_characters(tmp_path):
    folder = tmp_path / "a[1]*"
    write(folder / "de.parquet")
    assert ImportedVectors(config(folder / "{language}.parquet"), "de").dim == 3
    assert [path.name for path in imported.vector_files(config(folder))] == ["de.parquet"]

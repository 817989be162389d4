"""`disent embed`, `index` and `search` with the heads of a finished project."""

import csv
import io
import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import disent
from disent_assets.cli import main, search
from disent_core.text import text_key

pytestmark = pytest.mark.end_to_end
NAME = "fmda@tiny:en-de"


@pytest.fixture(scope="module")
def head(finished):
    return str(finished.workspace.head("tiny", "fmda", "en-de"))


@pytest.fixture(scope="module")
def rows(finished) -> list[dict[str, str]]:
    """Utterances of two languages, in turn."""
    both = zip(finished.utterances("en-US")[:20], finished.utterances("de-DE")[:20], strict=True)
    return [{"text": row["utt"], "language": row["locale"][:2]} for pair in both for row in pair]


@pytest.fixture(scope="module")
def texts(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def index(finished, texts, head, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "index"
    result = finished.disent("index", str(texts), str(folder), "--head", NAME)
    assert (result.exit_code, result.stdout) == (0, f"{folder}: 40 texts; 40 new\n")
    return folder


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


# --- embed ------------------------------------------------------------------------------------------------


def test_a_parquet_file_has_the_texts_and_the_vectors_of_the_head(rows, texts, head, tmp_path):
    result = run("embed", texts, tmp_path / "out.parquet", "--head", head, "--embedding", "all")
    assert result.stdout == f"{tmp_path / 'out.parquet'}: 40 texts, meaning, template, residual, language\n"
    table, model = pq.read_table(tmp_path / "out.parquet"), disent.load(head)
    embeddings = ["meaning", "template", "residual", "language_embedding"]
    assert table.column_names == ["text_key", "text", "language", *embeddings]
    assert table.select(["text", "language"]).to_pylist() == rows
    assert table["text_key"].to_pylist() == [text_key(row["text"]) for row in rows]
    for name, matrix in model.encode_all([row["text"] for row in rows]).items():
        column = table["language_embedding" if name == "language" else name].combine_chunks()
        assert column.type.list_size == matrix.shape[1]
        np.testing.assert_array_equal(column.flatten().to_numpy().reshape(matrix.shape), matrix)


def test_a_parquet_file_says_what_made_it_and_polars_and_duckdb_read_its_vectors(texts, head, tmp_path):
    import duckdb
    import polars as pl

    path = tmp_path / "out.parquet"
    run("embed", texts, path, "--head", head, "--embedding", "template")
    frame = pl.read_parquet(path)
    assert isinstance(frame.schema["template"], pl.Array)
    ours = duckdb.connect().execute("select template from read_parquet(?)", [str(path)]).fetchall()
    assert [list(vector) for (vector,) in ours] == frame["template"].to_list()
    made_by = json.loads(pq.read_schema(path).metadata[b"disent"])
    model = disent.load(head)
    assert (made_by["fingerprint"], made_by["seed"]) == (model.fingerprint, 0)
    assert made_by["encoder_fingerprint"] == model.description["encoder_fingerprint"]
    assert made_by["description"]["settings"] == model.description["settings"]


def test_a_method_without_training_embeds_too(finished, texts, rows, tmp_path):
    result = finished.disent("embed", str(texts), str(tmp_path / "out.npy"), "--head", "raw@tiny")
    assert result.exit_code == 0, result.output
    raw = disent.open(finished.config, home=finished.home).head("raw", "tiny")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), raw.encode([row["text"] for row in rows]))


REFUSED = [
    (["no.txt", "out.npy"], 1, "no.txt: there is no such file. Check the path"),
    (["empty.txt", "out.npy"], 1, "empty.txt: no texts were read. Name a file with at least one text"),
    (["bad.txt", "out.npy"], 1, "bad.txt:2: the sentence is empty. Correct it or leave it out"),
    (["good.txt", "out.npy", "--column", "x"], 2, "good.txt has no columns; leave out --column x"),
    (["good.txt", "out.csv"], 2, "out.csv must end in .parquet or .npy"),
    (["good.txt", "out.npy", "--embedding", "all"], 2, "out.npy: a matrix has one embedding, of meaning, template"),
    (["good.txt", "out.npy", "--embedding", "form"], 2, "this head has no embedding 'form'; choose one of meaning"),
    (["good.txt", "out.npy", "--seed", "7"], 2, "fmda was not trained with seed 7; choose one of 0, 1"),
    (["good.parquet", "good.parquet"], 2, "good.parquet is both the texts and the output"),
]


def test_embed_errors_are_one_line_and_write_nothing(head, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in {"empty.txt": "", "bad.txt": "a\n\n", "good.txt": "a\n"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    pq.write_table(pa.table({"text": ["a"]}), "good.parquet")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments, code, problem in REFUSED:
        refused = run("embed", *arguments, "--head", head)
        assert refused.exit_code == code
        assert f"disent: {problem}" in refused.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    monkeypatch.setattr(search, "open_model", lambda *arguments: pytest.fail("the head was loaded"))
    assert run("embed", "good.txt", "out.csv", "--head", "x").exit_code == 2


@pytest.mark.parametrize("command", ["embed", "index"])
def test_refused_commands_do_not_read_the_texts(head, index, tmp_path, monkeypatch, command):
    monkeypatch.setattr(search, "progress", lambda *arguments: pytest.fail("the texts were read"))
    (tmp_path / "in.txt").write_text("a\n", encoding="utf-8")
    wrong = {"embed": [tmp_path / "out.npy", "--embedding", "all"], "index": [index, "--seed", 1]}[command]
    assert run(command, tmp_path / "in.txt", *wrong, "--head", head).exit_code


def test_an_unseen_language_warns_once(head, tmp_path):
    for language, times in (("en", 0), ("english", 1)):
        arguments = ("embed", "-", tmp_path / "out.npy", "--head", head, "--language", language)
        result = run(*arguments, stdin="play jazz\nwake me\n")
        assert result.exit_code == 0
        assert result.stderr.count("The model has not seen 'english', only en, de") == times


def test_a_killed_command_leaves_the_file_that_was_there(texts, head, tmp_path, monkeypatch):
    (tmp_path / "out.parquet").write_bytes(b"before")

    def killed(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(disent.Model, "encode_all", killed)
    assert run("embed", texts, tmp_path / "out.parquet", "--head", head).exit_code == 1
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.parquet", b"before")]


def test_lines_are_encoded_a_block_at_a_time_by_the_chosen_seed(texts, rows, head, tmp_path, monkeypatch):
    from disent_core.search import vectors_file

    monkeypatch.setattr(vectors_file, "_BLOCK_TEXTS", 7)
    (tmp_path / "in.txt").write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    run("embed", tmp_path / "in.txt", tmp_path / "out.npy", "--head", head, "--embedding", "template", "--seed", 1)
    expected = disent.load(head, seed=1).encode([row["text"] for row in rows], "template")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    run("embed", texts, tmp_path / "out.parquet", "--head", head)
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 6


# --- index ------------------------------------------------------------------------------------------------


def test_an_index_is_extended_without_naming_its_head(index, texts, tmp_path):
    copy = shutil.copytree(index, tmp_path / "index")
    result = run("index", texts, copy)
    assert result.stdout == f"{copy}: 40 texts; 0 new, 40 known or repeated\n"
    result = run("index", "-", copy, stdin="a text that no corpus has\n")
    assert result.stdout == f"{copy}: 41 texts; 1 new\n"


def test_dropped_texts_are_reported_in_the_last_line(index, tmp_path):
    copy = shutil.copytree(index, tmp_path / "index")
    part = german_part(copy)
    (part / "embeddings.parquet").write_bytes(b"x")
    result = run("index", "-", copy, stdin="a text that no corpus has\n")
    assert (result.exit_code, result.stdout) == (0, f"{copy}: 41 texts; 1 new, 20 from damaged files stored again\n")
    part = german_part(copy)
    for name in ("embeddings.parquet", "texts.parquet"):
        (part / name).write_bytes(b"x")
    result = run("index", "-", copy, stdin="a text that no corpus has\n")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"disent: {copy}: 20 texts were dropped, because their files were damaged; damaged-* has what is left. "
        "Index these texts again"
    )


def german_part(index):
    (path,) = (
        path for path in index.glob("part-*/texts.parquet") if "de" in pq.read_table(path)["language"].to_pylist()
    )
    return path.parent


def test_an_index_may_have_one_embedding(head, texts, tmp_path):
    run("index", texts, tmp_path / "index", "--head", head, "--embedding", "template")
    assert disent.Index.open(tmp_path / "index").embeddings == ("template",)
    result = run("search", tmp_path / "index", "x", "--by", "residual")
    assert result.exit_code == 2
    assert "this index (fmda on tiny, en-de, seed 0) has no embedding 'residual'; choose one of shape" in result.stderr
    result = run("index", texts, tmp_path / "index", "--embedding", "meaning")
    assert "this index has the embeddings template" in result.stderr


def test_a_faiss_engine_reports_its_recall(head, texts, tmp_path):
    pytest.importorskip("faiss")
    result = run("index", texts, tmp_path / "index", "--head", head, "--embedding", "template", "--engine", "hnsw")
    share = "hnsw finds this share of the 10 nearest texts of exact search, on 20 texts of the index: template 1.000"
    assert share in result.stdout.splitlines()[1]
    index = disent.Index.open(tmp_path / "index")
    assert (index.engine, index.recall) == ("hnsw", {"template": 1.0})
    approximate, exact = (run("search", tmp_path / "index", "wake me", *flags).stdout for flags in ([], ["--exact"]))
    assert approximate == exact


def test_the_error_of_an_unknown_head_name_lists_the_configured_ones(finished, texts, tmp_path):
    for name in ("projection@tiny:en-de", "fmda@none:en-de", "fmda@tiny:en-xx"):
        result = finished.disent("index", str(texts), str(tmp_path / "index"), "--head", name)
        assert result.exit_code == 2
        assert "choose one of" in result.stderr
        assert result.stderr.count("\n") == 1


# --- search -----------------------------------------------------------------------------------------------


def test_an_indexed_text_finds_itself_first_unless_excluded(index, rows):
    result = run("search", index, rows[0]["text"], "--by", "template", "-k", 3, "--format", "csv")
    hits = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [hit["query"] for hit in hits] == [rows[0]["text"]] * 3
    assert (hits[0]["text"], hits[0]["row"], hits[0]["text_key"]) == (rows[0]["text"], "0", text_key(rows[0]["text"]))
    assert float(hits[0]["score"]) == pytest.approx(1, abs=1e-6)
    result = run("search", index, rows[0]["text"], "-k", 1)
    assert result.stdout.splitlines()[2] == f"1.000  en        {rows[0]['text']}"
    result = run("search", index, rows[0]["text"], "--except-same-text", "--format", "json")
    assert rows[0]["text"] not in [hit["text"] for hit in json.loads(result.stdout)]


def test_queries_of_a_file_or_standard_input_are_answered_in_order_each_in_its_language(index, texts, rows):
    arguments = ("--queries", texts, "-k", 2, "--other-language", "--format", "json")
    hits = json.loads(run("search", index, *arguments).stdout)
    assert [hit["query"] for hit in hits[::2]] == [row["text"] for row in rows]
    languages = {row["text"]: row["language"] for row in rows}
    assert all(hit["language"] != languages[hit["query"]] for hit in hits)
    result = run("search", index, "-", "-k", 1, "--only-language", "de", "--format", "json", stdin="play\nwake\n")
    assert [(hit["query"], hit["language"]) for hit in json.loads(result.stdout)] == [("play", "de"), ("wake", "de")]


def test_the_error_of_a_missing_head_names_the_option(index, tmp_path):
    copy = shutil.copytree(index, tmp_path / "index")
    contents = json.loads((copy / "index.json").read_text(encoding="utf-8"))
    contents["head"]["places"] = ["nowhere"]
    (copy / "index.json").write_text(json.dumps(contents), encoding="utf-8")
    assert run("search", copy, "x").stderr.endswith("is not where it was. Name it as --head HEAD\n")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([], 2, "give either TEXT or --queries FILE"),
        (["x", "--queries", "y"], 2, "give either TEXT or --queries FILE"),
        ([" "], 2, "a query is empty"),
        (["x", "--other-language"], 2, "--other-language needs the language of the query: --language CODE"),
        (["x", "--head", "nowhere"], 2, "there is no model 'nowhere' and no such file"),
    ],
)
def test_search_errors_are_one_line(index, arguments, code, problem):
    result = run("search", index, *arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
    assert f"disent: {problem}" in result.stderr


def test_hostile_texts_reach_neither_the_terminal_nor_the_shape_of_a_table(head, tmp_path):
    hostile = ["\x1b[31mred\x07", "left\u202eright", "a\tb", "<b>x</b> | y", "'; drop table x; --", "\x00nul"]
    lines = "".join(f"{text}\n" for text in hostile)
    assert run("index", "-", tmp_path / "index", "--head", head, stdin=lines).exit_code == 0
    result = run("search", tmp_path / "index", "x", "-k", 6)
    assert not set("\x1b\x07\u202e\x00") & set(result.stdout)
    assert len(result.stdout.partition("\n\n")[0].splitlines()) == 9  # a note that nothing matches may follow
    hits = json.loads(run("search", tmp_path / "index", "x", "-k", 6, "--format", "json").stdout)
    assert sorted(hit["text"] for hit in hits) == sorted(hostile)


def test_standard_input_is_lines_of_text(head, tmp_path):
    result = run(
        "embed", "-", tmp_path / "out.parquet", "--head", head, "--language", "en", stdin="play jazz\nwake me\n"
    )
    assert result.exit_code == 0, result.output
    assert pq.read_table(tmp_path / "out.parquet", columns=["text", "language"]).to_pylist() == [
        {"text": "play jazz", "language": "en"}, {"text": "wake me", "language": "en"}]  # fmt: skip


def test_an_index_of_an_exported_folder_is_the_index_of_the_head(head, index, texts, tmp_path):
    pytest.importorskip("sentence_transformers")
    disent.load(head).save(tmp_path / "exported")
    result = run("index", texts, tmp_path / "index", "--head", tmp_path / "exported")
    assert result.exit_code == 0, result.output
    answer = run("search", tmp_path / "index", "wake me up", "--format", "json")
    assert answer.stdout == run("search", index, "wake me up", "--format", "json").stdout


def test_without_faiss_the_command_says_how_to_install_it(head, texts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    result = run("index", texts, tmp_path / "index", "--head", head, "--engine", "ivf")
    assert result.exit_code == 2
    assert "pip install 'disent-embeddings[faiss]'" in result.stderr

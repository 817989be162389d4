"""An index of faiss beside an index: what it finds is told, its scores are those of exact search."""

import hashlib
import sys
from dataclasses import replace

import numpy as np
import pytest
from search_inputs import DIMS, added, vectors, words

from disent_core.errors import DamagedError
from disent_core.search import build
from disent_core.search.contents import read_contents, write_contents
from disent_core.search.parts import part_folder
from disent_core.search.stored import open_index
from disent_core.text import text_key

faiss = pytest.importorskip("faiss")
TEXTS = [*words(300), *words(200, "de", 200)]


def built(folder, engine, texts=TEXTS):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_PART_TEXTS", 100)
        build.add_texts(folder, added.__defaults__[0], vectors, texts, engine=engine)
    return folder


@pytest.fixture(scope="module", params=["hnsw", "ivf"])
def folder(request, tmp_path_factory):
    """An index of each engine. Tests only read it."""
    return built(tmp_path_factory.mktemp("built") / "index", request.param)


@pytest.mark.parametrize("name", DIMS)
def test_scores_are_those_of_exact_search(folder, name):
    index, queries = open_index(folder), vectors(["query", "a text 3", "b"])[name]
    approximate, exact = index.nearest(queries, name, 8), index.nearest(queries, name, 500, is_exact=True)
    for row in range(len(queries)):
        score_of = dict(zip(exact[1][row], exact[0][row], strict=True))
        assert [score_of[number] for number in approximate[1][row]] == list(approximate[0][row])
        assert list(approximate[0][row]) == sorted(approximate[0][row], reverse=True)


def test_the_stored_recall_equals_the_recall_of_a_search(folder):
    index = open_index(folder)
    approximate = index.contents.approximate
    assert approximate.engine in ("hnsw", "ivf")
    assert set(approximate.recall_at_10) == set(approximate.effort) == set(DIMS)
    assert approximate.queries == 200
    texts = [index.texts[int(row)] for row in np.random.default_rng(0).permutation(500)[100:300]]
    for name, share in approximate.recall_at_10.items():
        queries, options = vectors(texts)[name], {"without": [text_key(text) for text in texts]}
        scores, exact = (index.nearest(queries, name, 10, is_exact=value, **options)[0] for value in (False, True))
        assert share == pytest.approx(np.mean(np.minimum((scores >= exact[:, -1:]).mean(axis=1), 1)))
        assert share > 0.9


def test_faiss_itself_reads_the_file_and_answers_with_rows(folder):
    index = open_index(folder)
    path = next(folder.glob("faiss-*/template.faiss"))
    query = vectors(["a text 3"])["template"]
    scores, rows = faiss.read_index(str(path)).search(query / np.linalg.norm(query), 1)
    assert index.texts[int(rows[0, 0])] == "a text 3"
    assert scores[0, 0] == pytest.approx(1, abs=1e-5)


def test_texts_with_equal_vectors_are_all_found_and_the_query_can_be_excluded(folder):
    index = open_index(folder)
    _, rows = index.nearest(vectors(["a"])["residual"], "residual", 160)
    assert {index.texts[int(row)][0] for row in rows[0]} == {"a"}
    assert len(set(rows[0].tolist())) == 160
    text = "a text 201"
    _, rows = index.nearest(vectors([text])["template"], "template", 5, without=[text_key(text)])
    assert len(rows[0]) == 5
    assert text not in [index.texts[int(row)] for row in rows[0]]


def test_a_search_in_some_languages_is_exact(folder):
    index, queries = open_index(folder), vectors(["query"])["template"]
    rows, exact = (
        index.nearest(queries, "template", 200, keep=lambda language: language == "de", is_exact=value)[1]
        for value in (False, True)
    )
    assert {index.languages[int(row)] for row in rows[0]} == {"de"}
    np.testing.assert_array_equal(rows, exact)


def test_without_faiss_an_index_is_searched_exactly(folder, monkeypatch):
    from disent_core.search import stored

    queries = vectors(["query"])["template"]
    exact = open_index(folder).nearest(queries, "template", 20, is_exact=True)
    monkeypatch.setattr(stored, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "faiss", None)
    np.testing.assert_array_equal(open_index(folder).nearest(queries, "template", 20)[1], exact[1])


def test_without_faiss_an_engine_is_refused_before_anything_is_encoded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ModuleNotFoundError):
        built(tmp_path / "index", "hnsw")
    assert not (tmp_path / "index").exists()


def test_few_new_texts_are_searched_exactly_and_many_rebuild_the_faiss_index(tmp_path):
    folder = built(tmp_path / "index", "ivf")
    before = read_contents(folder).approximate
    added(folder, words(10, first=900))
    assert read_contents(folder).approximate == before
    index = open_index(folder)
    _, rows = index.nearest(vectors(["a text 903"])["template"], "template", 1)
    assert index.texts[int(rows[0, 0])] == "a text 903"
    added(folder, words(90, first=1000))
    contents = read_contents(folder)
    assert set(contents.approximate.parts) == {part.number for part in contents.parts}
    assert [path.name for path in folder.glob("faiss-*")] == [f"faiss-{contents.approximate.number:05d}"]


def test_the_search_engine_is_kept_until_changed(tmp_path):
    folder = built(tmp_path / "index", "hnsw", words(50))
    assert read_contents(built(folder, None, words(51))).approximate.engine == "hnsw"
    assert read_contents(built(folder, "ivf", [])).approximate.engine == "ivf"
    assert read_contents(built(folder, "exact", [])).approximate is None
    assert list(folder.glob("faiss-*")) == []
    added(folder, words(90))
    assert read_contents(folder).approximate is None


@pytest.mark.parametrize(("rows", "has_faiss", "engine"), [(499, True, None), (500, True, "ivf"), (500, False, None)])
def test_faiss_is_the_default_above_the_row_limit_if_installed(tmp_path, monkeypatch, rows, has_faiss, engine):
    monkeypatch.setattr(build, "FROM_ROWS", 500)
    monkeypatch.setattr(build, "find_spec", lambda name: "a spec" if has_faiss else None)
    approximate = read_contents(built(tmp_path / "index", None, words(rows))).approximate
    assert (approximate and approximate.engine) == engine


def test_a_kill_before_the_faiss_build_leaves_an_exactly_searched_index(tmp_path, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_approximate", killed)
        with pytest.raises(KeyboardInterrupt):
            built(tmp_path / "index", "ivf")
    index = open_index(tmp_path / "index")
    assert (index.contents.rows, index.contents.approximate) == (500, None)
    built(tmp_path / "index", "ivf", [])
    assert read_contents(tmp_path / "index").approximate is not None


def test_a_changed_file_is_refused_and_made_anew(tmp_path):
    folder = built(tmp_path / "index", "ivf", words(60))
    path = next(folder.glob("faiss-*/template.faiss"))
    path.write_bytes(b"x" * 100)
    with pytest.raises(DamagedError, match=r"template.faiss: this file is not as it was written"):
        open_index(folder).nearest(vectors(["query"])["template"], "template", 1)
    added(folder, [])
    assert open_index(folder).nearest(vectors(["query"])["template"], "template", 1)[1].shape == (1, 1)


@pytest.mark.parametrize(
    ("start", "written", "message"),
    [
        (0, b"none", "faiss can't read this file"),
        (8, (1 << 40).to_bytes(8, "little"), "faiss can't read this file"),
        (0, None, "its vectors have 3 numbers, not 5"),
    ],
    ids=["no kind", "rows without end", "the index of another embedding"],
)
def test_a_forged_faiss_file_with_valid_checksum_is_refused_in_one_line(tmp_path, start, written, message):
    folder = built(tmp_path / "index", "hnsw", words(60))
    path, contents = next(folder.glob("faiss-*/template.faiss")), read_contents(folder)
    content = path.read_bytes()
    forged = path.with_name("residual.faiss").read_bytes()
    if written is not None:
        forged = content[:start] + written + content[start + len(written) :]
    path.write_bytes(forged)
    files = {**contents.approximate.files, path.name: hashlib.sha256(forged).hexdigest()}
    write_contents(folder, replace(contents, approximate=replace(contents.approximate, files=files)))
    with pytest.raises(DamagedError, match=rf"template.faiss: {message}. Make the index with") as refused:
        open_index(folder).nearest(vectors(["query"])["template"], "template", 1)
    assert "\n" not in str(refused.value)


def test_losing_a_part_rebuilds_the_faiss_index(tmp_path):
    folder = built(tmp_path / "index", "ivf")
    part = read_contents(folder).parts[0]
    for name in ("texts.parquet", "embeddings.parquet"):
        (part_folder(folder, part.number) / name).write_bytes(b"x")
    added(folder, [])
    contents = read_contents(folder)
    assert contents.rows == 200
    assert set(contents.approximate.parts) == {entry.number for entry in contents.parts}


@pytest.mark.parametrize("count", [1, 3])
def test_a_tiny_index_can_be_searched(tmp_path, count):
    index = open_index(built(tmp_path / "index", "ivf", words(count)))
    assert index.nearest(vectors(["query"])["template"], "template", count)[1].min() >= 0

"""`disent.Index`: what a search by a head answers, with a head whose vectors are counts of letters and words."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from static_models import static_model

import disent
from disent import extras
from disent import index as index_module
from disent_assets.cli import main
from disent_core.errors import CorpusError, EncoderError, TableError, TrainingError

ROOT = Path(__file__).resolve().parents[2]

VERBS, ROOMS = ("wake", "play", "turn"), ("nine", "jazz", "kitchen")
TEXTS = [f"{verb} {room}" for verb in VERBS for room in ROOMS]


def counted(texts, words):
    return np.array([[text.split().count(word) + 0.01 for word in words] for text in texts], dtype=np.float32)


class Trained:
    """The template of a text is its verb, its residual its room."""

    def __init__(self, languages=None):
        self.languages = languages

    def embed(self, texts, seed):
        return {
            "meaning": counted(texts, VERBS + ROOMS) + (0 if seed is None else seed),
            "template": counted(texts, VERBS),
            "residual": counted(texts, ROOMS),
        }


def model(path=None, *, languages=None, content="weights", embeddings=("meaning", "template", "residual"), settings=""):
    method = SimpleNamespace(
        name="facet", embeddings=embeddings, is_seeded=False, is_transductive=lambda settings: settings == "test"
    )
    names = {"name": "facet", "encoder": "tiny", "trained_on": "en-de", "encoder_fingerprint": "e"}
    head = {"content": content, "path": path, "settings": settings, "features": lambda texts, language: texts}
    return disent.Model(SimpleNamespace(method=method, description=names, trained=Trained(languages), **head))


@pytest.fixture
def index(tmp_path):
    disent.Index.build(tmp_path / "index", model(), TEXTS, language="en")
    return disent.Index.build(tmp_path / "index", model(), ["wake nine", "halt zimmer"], language="de")


REQUESTS = ["wake me up at nine", "play some jazz", "turn off the lights", "what is the weather in berlin"]
NONSENSE = "qwxz vrrtb plomk"


@pytest.fixture
def requests(tmp_path):
    return disent.Index.build(tmp_path / "requests", disent.load("small"), REQUESTS)


def printed(*arguments):
    answer = CliRunner().invoke(main, ["search", *map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_an_index_on_disk_stores_the_noise_level_of_one_in_memory(requests):
    assert requests.noise == disent.Index.of(REQUESTS).noise
    stored = json.loads((requests.folder / "index.json").read_text())
    assert stored["noise"] == requests.noise


def test_the_search_command_marks_hits_below_the_noise_level(requests, monkeypatch):
    assert "is_near" not in printed(requests.folder, REQUESTS[0], "-k", 1)
    for by in ("shape", "meaning"):
        shown = printed(requests.folder, NONSENSE, "--by", by, "-k", 1)
        assert "False" in shown
        assert "Nothing matches: the nearest text has a cosine of" in shown
    rows = json.loads(printed(requests.folder, "play some blues", "--format", "json"))
    assert [row["is_near"] for row in rows] == [row["score"] > requests.noise["meaning"] for row in rows]
    assert {row["is_near"] for row in rows} == {True, False}
    # A search measures nothing: the level is stored.
    monkeypatch.setattr("disent_core.search.noise.noise_levels", None)
    assert "Nothing matches" in printed(requests.folder, NONSENSE)


def test_an_index_without_noise_level_is_measured_at_search_time(requests):
    path = requests.folder / "index.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "noise"}))
    assert disent.Index.open(requests.folder).noise == requests.noise
    assert "Nothing matches" in printed(requests.folder, NONSENSE)


def test_the_search_command_counts_queries_without_match(requests, tmp_path):
    (tmp_path / "queries.txt").write_text(f"{REQUESTS[0]}\n{NONSENSE}\n")
    shown = printed(requests.folder, "--queries", tmp_path / "queries.txt", "-k", 1)
    assert "1 of 2 queries match nothing" in shown
    assert "True" in shown
    assert "False" in shown


def test_template_search_finds_equal_shapes_and_residual_search_equal_values(index):
    by_template, by_residual = (index.search("wake jazz now", by, k=3) for by in ("template", "residual"))
    assert {hit.text.split()[0] for hit in by_template} == {"wake"}
    assert {hit.text.split()[1] for hit in by_residual} == {"jazz"}


def test_hits_are_by_score_and_then_by_row_and_several_queries_have_those_that_each_has_alone(index):
    queries = ["wake jazz", "turn kitchen", "nothing"]
    assert index.search(queries, "residual", 4) == [index.search(query, "residual", 4) for query in queries]
    hits = index.search("play", "template", 99)
    assert len(hits) == 11
    assert [(-hit.score, hit.row) for hit in hits] == sorted((-hit.score, hit.row) for hit in hits)


def test_a_search_by_several_embeddings_encodes_once_and_has_the_hits_of_each(index, monkeypatch):
    queries, by, encoded, embed = ["wake jazz", "turn kitchen"], ["residual", "meaning"], [], Trained.embed
    expected = {name: index.search(queries, name, 4, except_same_text=True) for name in by}
    monkeypatch.setattr(Trained, "embed", lambda self, texts, seed: encoded.append(texts) or embed(self, texts, seed))
    assert index.search_each(queries, by, 4, except_same_text=True) == expected
    assert encoded == [queries]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "form"}, r"\(facet on tiny, en-de\) has no embedding 'form'; choose one of meaning, shape, values"),
        ({"k": 0}, "k is 0; it must be a whole number, at least 1"),
        ({"k": "3"}, "k is '3'; it must be a whole number, at least 1"),
        ({"texts": []}, "there is no query"),
        ({"texts": ["x", " "]}, "a query is empty"),
        ({"other_language": True}, "other_language= needs the language of the query: language="),
        ({"only_language": "fr"}, "the index has no text in 'fr'; it has de, en"),
    ],
)
def test_invalid_search_arguments_are_refused_with_the_reason(index, arguments, message):
    with pytest.raises(ValueError, match=message):
        index.search(**{"texts": "x", **arguments})


def test_a_language_specific_head_requires_the_language_of_texts(tmp_path):
    spoken = model(languages={"en", "de"})
    index = disent.Index.build(tmp_path / "index", spoken, TEXTS, language="en")
    assert index.search("wake nine", language="de")[0].text == "wake nine"
    with pytest.raises(ValueError, match="name the language of the texts"):
        index.search("wake nine")
    with pytest.raises(CorpusError, match="texts:1: no language is named, and the head needs one of de, en"):
        disent.Index.build(tmp_path / "other", spoken, TEXTS)


@pytest.mark.parametrize(
    ("head", "texts", "error", "message"),
    [
        ({}, "one text", ValueError, "texts must be a list of texts, not one text"),
        ({}, [], ValueError, "there are no texts"),
        ({}, ["a", " "], CorpusError, "texts:2: the sentence is empty"),
        ({"embeddings": ()}, TEXTS, ValueError, "facet tags the slots of sentences and does not embed"),
        ({"settings": "test"}, TEXTS, ValueError, "facet subtracts the mean of all texts that are encoded together"),
    ],
)
def test_building_an_index_refuses_invalid_texts_and_heads(tmp_path, head, texts, error, message):
    with pytest.raises(error, match=message):
        disent.Index.build(tmp_path / "index", model(**head), texts)
    assert not list(tmp_path.glob("index/part-*"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tagger: tagger.encode("x"), "facet tags the slots of sentences and does not embed; call label"),
        (lambda tagger: tagger.encode_all(["x"]), "facet tags the slots of sentences and does not embed"),
        (lambda tagger: tagger.label("weck mich", language="de"), "a sentence to tag is a list of words"),
        (lambda tagger: tagger.label(["weck mich"], language="de"), "a sentence to tag is a list of words"),
        (lambda tagger: tagger.label([["wake"]], language="en"), "this head tags de only, not 'en'"),
    ],
)
def test_a_tagging_head_refuses_embedding_and_invalid_words(call, message):
    with pytest.raises(ValueError, match=message):
        call(model(embeddings=(), languages={"de"}))


# --- the head of an index ---------------------------------------------------------------------------------


@pytest.fixture
def loaded(monkeypatch):
    """Replaces `load`; the paths that were loaded."""
    paths = []

    def load(path, *, seed, device, encoder, methods):
        paths.append((path.resolve(), seed, device))
        return model(path, content=path.read_text(encoding="utf-8"))

    monkeypatch.setattr(index_module, "load", load)
    return paths


@pytest.fixture
def kept(tmp_path):
    """An index in `project/`, whose head lies there too."""
    head = tmp_path / "project" / "heads" / "en-de.safetensors"
    head.parent.mkdir(parents=True)
    head.write_text("weights", encoding="utf-8")
    disent.Index.build(tmp_path / "project" / "index", model(head), TEXTS)
    return tmp_path / "project" / "index"


def test_the_head_of_an_index_is_loaded_lazily(kept, loaded):
    index = disent.Index.open(kept, device="cpu")
    assert (index.head_title, loaded) == ("facet on tiny, en-de", [])
    index.search("wake")
    index.search("play")
    assert loaded == [(kept.parent / "heads" / "en-de.safetensors", None, "cpu")]


def test_a_moved_index_finds_its_head_and_stores_no_absolute_path(kept, loaded, tmp_path):
    (tmp_path / "project").rename(tmp_path / "renamed")
    assert disent.Index.open(tmp_path / "renamed" / "index").search("wake")
    contents = json.loads((tmp_path / "renamed" / "index" / "index.json").read_text())
    assert contents["head"]["places"] == ["../heads/en-de.safetensors"]
    assert str(tmp_path) not in json.dumps(contents)


def test_a_stored_absolute_path_is_not_followed_and_is_dropped_on_update(kept, loaded, tmp_path):
    contents, head = json.loads((kept / "index.json").read_text()), kept.parent / "heads" / "en-de.safetensors"
    contents["head"]["places"].append(str(head))
    (kept / "index.json").write_text(json.dumps(contents))
    kept.rename(tmp_path / "moved")
    with pytest.raises(TrainingError, match=r"is not where it was. Name it as head="):
        disent.Index.open(tmp_path / "moved").search("wake")
    assert loaded == []
    disent.Index.build(tmp_path / "moved", model(head), ["halt"])
    contents = json.loads((tmp_path / "moved" / "index.json").read_text())
    assert contents["head"]["places"] == ["../project/heads/en-de.safetensors"]


def test_a_lost_head_can_be_passed_explicitly(kept, loaded, tmp_path):
    (kept.parent / "heads" / "en-de.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(TrainingError, match=r"its head \(facet on tiny, en-de\) is not where it was. Name it as head="):
        disent.Index.open(kept).search("wake")
    assert disent.Index.open(kept, head=tmp_path / "elsewhere").search("wake")
    assert disent.Index.open(kept, head=model()).search("wake")


def test_a_head_that_was_trained_again_is_refused(kept, loaded):
    (kept.parent / "heads" / "en-de.safetensors").write_text("other weights", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"its head is not the one that made this index \(facet on tiny, en-de\)"):
        disent.Index.open(kept).search("wake")


def test_an_index_of_an_unsaved_head_needs_that_head_passed(index):
    with pytest.raises(
        TrainingError, match=r"its head \(facet on tiny, en-de\) was not loaded from a file. Name it as head="
    ):
        disent.Index.open(index.folder).search("wake")
    with pytest.raises(TableError, match="made with another version of"):
        disent.Index.build(index.folder, model(content="others"), ["x"])


def test_an_unknown_option_of_a_search_is_refused(index):
    with pytest.raises(TypeError, match=r"unexpected.*same_text.*except_same_text"):
        index.search("wake", same_text=True)


# --- in memory --------------------------------------------------------------------------------------------


def test_an_index_in_memory_has_the_hits_of_one_on_disk(index):
    languages = ["en"] * 9 + ["de", "de"]
    memory = disent.Index.of([*TEXTS, "wake nine", "halt zimmer"], model(), language=languages)
    queries = ["wake jazz now", "turn kitchen", "nothing"]
    for by in index.embeddings:
        for request in ({}, {"only_language": "de"}, {"language": "en", "other_language": True}):
            assert memory.search(queries, by, 20, **request) == index.search(queries, by, 20, **request)
    kept = memory.search("wake nine", k=20, except_same_text=True)
    assert kept == index.search("wake nine", k=20, except_same_text=True)
    assert len(kept) == 9
    assert (memory.folder, memory.engine, len(memory)) == (None, "exact", 11)


def test_a_search_takes_a_model_by_its_name_or_folder(static):
    texts = ["weck mich um neun", "spiel jazz"]
    by_model, by_folder = (disent.search("play jazz", texts, model=model, k=1) for model in (static, static.path))
    assert by_model == by_folder
    assert disent.search("play jazz", texts, model="small", k=1) == disent.search("play jazz", texts, k=1)


def test_a_repeated_text_in_memory_keeps_its_place_in_the_list():
    hits = disent.Index.of(["play jazz", "wake nine", "play jazz"], model()).search("play jazz", k=2)
    assert [hit.row for hit in hits] == [0, 2]
    index = disent.Index.of(["play jazz", "wake nine", "play jazz"], model())
    assert [hit.row for hit in index.search("play jazz", k=2, except_same_text=True)] == [1]


def test_no_texts_in_memory_give_no_hits():
    index = disent.Index.of([], model(embeddings=("template",)))
    assert index.search("wake") == []
    assert index.search(["wake", "play"], except_same_text=True) == [[], []]


def test_a_head_that_needs_languages_embeds_each_text_in_memory_in_its(monkeypatch):
    spoken, asked, embed = model(languages={"en", "de"}), [], disent.Model.encode_all

    def encode_all(self, texts, *, language=None):
        asked.append((language, [*texts]))
        return embed(self, texts, language=language)

    monkeypatch.setattr(disent.Model, "encode_all", encode_all)
    index = disent.Index.of(TEXTS[:3], spoken, language=["en", "de", "en"])
    assert sorted(asked) == [("de", TEXTS[1:2]), ("en", [TEXTS[0], TEXTS[2]])]
    assert [index.search(text, language="en")[0].text for text in TEXTS[:3]] == TEXTS[:3]
    with pytest.raises(ValueError, match="3 texts and 2 languages"):
        disent.Index.of(TEXTS[:3], spoken, language=["en", "de"])


@pytest.mark.parametrize(
    ("texts", "head", "message"),
    [
        ("one text", {}, "texts must be a list of texts, not one text"),
        (["a", None], {}, "text 2 is None"),
        (["a"], {"settings": "test"}, "subtracts the mean of all texts"),
    ],
)
def test_invalid_input_of_an_in_memory_search_is_refused(texts, head, message):
    with pytest.raises(ValueError, match=message):
        disent.Index.of(texts, model(**head))


def test_a_vector_that_is_not_finite_is_refused(monkeypatch):
    monkeypatch.setattr(Trained, "embed", lambda self, texts, seed: {"meaning": np.array([[1, np.nan]] * len(texts))})
    with pytest.raises(EncoderError, match="meaning: the vector of text 1 has values that are not finite"):
        disent.Index.of(["a"], model(embeddings=("meaning",)))


# --- static models ----------------------------------------------------------------------------------------


@pytest.fixture
def static(tmp_path):
    static_model().save(tmp_path / "toy")
    return disent.load(tmp_path / "toy")


def test_one_call_search_ranks_texts_by_cosine(static):
    (hit, *others) = disent.search("wake nine", TEXTS, by="shape", k=4, model=static)
    cosines = static.similarity("wake nine", TEXTS, "shape")[0]
    assert (hit.text, len(others)) == ("wake nine", 3)
    assert [hit.row, *(other.row for other in others)] == np.argsort(-cosines, kind="stable")[:4].tolist()
    assert hit.score == pytest.approx(cosines[hit.row], abs=1e-6)
    assert [len(hits) for hits in disent.search(["a", "b"], TEXTS, model=static)] == [9, 9]


def test_the_vectors_of_an_index_are_those_of_its_texts_scaled_to_norm_1(static, tmp_path):
    texts = [f"text {number}" for number in range(5)]
    expected = static.encode(texts, "shape")
    for index in (disent.Index.of(texts, static), disent.Index.build(tmp_path / "index", static, texts)):
        for rows in ([3, 0, 3], []):
            vectors = index.vectors("shape", rows)
            assert vectors.dtype == np.float32
            np.testing.assert_allclose(vectors, expected[rows], atol=1e-6)
        for row in (-1, 5):
            with pytest.raises(IndexError, match="0 to 4"):
                index.vectors("shape", [row])


@pytest.mark.parametrize("changed", [{"seed": 2}, {"unseen": 0.5}, {"table": 4}])
def test_an_index_refuses_a_static_model_of_other_weights_or_other_unseen_rows(static, tmp_path, changed):
    disent.Index.build(tmp_path / "index", static, TEXTS)
    static_model(**changed).save(tmp_path / "toy")
    with pytest.raises(TrainingError, match=r"its model is not the one that made this index \(toy, de, en\)"):
        disent.Index.open(tmp_path / "index").search("wake")
    with pytest.raises(TableError, match="made with another version of"):
        disent.Index.build(tmp_path / "index", disent.load(tmp_path / "toy"), ["x"])


def test_an_index_finds_a_model_that_disent_comes_with_by_its_name(static, tmp_path, monkeypatch):
    monkeypatch.setattr("disent.model.MODELS", tmp_path / "models")
    static.save(tmp_path / "models" / "toy")
    disent.Index.build(tmp_path / "index", disent.load("toy"), TEXTS)
    static.save(tmp_path / "newer" / "toy")
    shutil.rmtree(tmp_path / "models")
    with pytest.raises(TrainingError, match=r"its model \(toy, de, en\) is not where it was"):
        disent.Index.open(tmp_path / "index").search("wake")
    monkeypatch.setattr("disent.model.MODELS", tmp_path / "newer")
    assert disent.Index.open(tmp_path / "index").search("wake")


SEARCHED = """
import sys
sys.modules |= dict.fromkeys({absent})  # None: an import of them fails
import disent
print(disent.search("wake me at nine", ["weck mich um neun", "spiel jazz"], "shape", 1)[0].text)
index = disent.Index.of(["weck mich um neun", "spiel jazz"], disent.load())
print(index.search(["play some jazz"], by="values", k=1)[0][0].text)
"""


def test_numpy_and_safetensors_suffice_to_search():
    absent = sorted(extras.TRAIN | extras.LINEAGE | {"tqdm"})
    code = SEARCHED.format(absent=absent)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["weck mich um neun", "spiel jazz"]


BASE_AND_CLI = """
import sys
sys.modules |= dict.fromkeys({absent})
from disent_assets.cli import main
for arguments in {commands!r}:
    main(arguments, standalone_mode=False)
"""


def test_embed_index_search_and_check_run_without_the_extras_train_and_lineage(tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "weck mich um neun\nspiel etwas jazz\nerinnere mich um neun\nweck mich um neun\n", encoding="utf-8"
    )
    commands = [
        ["embed", str(texts), str(tmp_path / "out.npy"), "--embedding", "shape"],
        ["index", str(texts), str(tmp_path / "index")],
        ["index", str(texts), str(tmp_path / "index")],
        ["search", str(tmp_path / "index"), "wake me at ten", "--by", "shape", "-k", "1", "--format", "csv"],
        ["check", "small"],
    ]
    absent = sorted({"torch", "transformers", "tokenizers", "polars", "scipy"} | extras.LINEAGE)
    code = BASE_AND_CLI.format(absent=absent, commands=commands)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    embedded, indexed, again, _, hit, checked, *_ = ran.stdout.splitlines()
    assert embedded.endswith("out.npy: 4 texts, template")
    assert indexed.endswith("3 texts; 3 new, 1 known or repeated")
    assert again.endswith("3 texts; 0 new, 4 known or repeated")
    assert "weck mich um neun" in hit
    assert checked.endswith("unchanged since its record was written")
    assert np.array_equal(
        np.load(tmp_path / "out.npy"), disent.load().encode(texts.read_text(encoding="utf-8").splitlines(), "shape")
    )


def test_a_static_model_is_exported_whole_or_refused_in_one_line(static, tmp_path):
    pytest.importorskip("sentence_transformers")
    result = CliRunner().invoke(main, ["export", str(static.path), str(tmp_path / "out"), "--onnx"])
    assert result.exit_code == 2
    assert "is a static model, which is exported whole and without a graph" in result.stderr
    result = CliRunner().invoke(main, ["export", str(static.path), str(tmp_path / "out"), "--licence", "CC0-1.0"])
    assert result.exit_code == 0, result.output
    assert "trust_remote_code=True" in result.stdout
    model = disent.load(tmp_path / "out")
    assert model.description["licence"] == "CC0-1.0"
    assert np.array_equal(model.encode("toy"), static.encode("toy"))
    assert CliRunner().invoke(main, ["check", str(tmp_path / "out")]).exit_code == 0


@pytest.mark.parametrize(
    ("request_", "texts"),
    [
        ({"language": "en", "other_language": True}, {"wake nine", "halt zimmer"}),
        ({"only_language": "de"}, {"wake nine", "halt zimmer"}),
        ({"except_same_text": True}, {*TEXTS, "halt zimmer"} - {"wake nine"}),
    ],
)
def test_hits_can_be_filtered_by_language_and_exclude_the_query(index, request_, texts):
    hits = index.search("wake nine", k=99, **request_)
    assert ({hit.text for hit in hits}, len(hits)) == (texts, len(texts))

"""`disent.Index`: what a search by a head answers, with a head whose vectors are counts of letters and words."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

import disent
from disent import index as index_module
from disent_core.errors import CorpusError, TableError, TrainingError

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
    return disent.Model(
        SimpleNamespace(
            method=method,
            description=names,
            trained=Trained(languages),
            content=content,
            path=path,
            settings=settings,
            features=lambda texts, language: texts,
        )
    )


@pytest.fixture
def index(tmp_path):
    disent.Index.build(tmp_path / "index", model(), TEXTS, language="en")
    return disent.Index.build(tmp_path / "index", model(), ["wake nine", "halt zimmer"], language="de")


def test_a_search_by_template_finds_the_same_shape_and_by_residual_the_same_values(index):
    by_template, by_residual = (index.search("wake jazz now", by, k=3) for by in ("template", "residual"))
    assert {hit.text.split()[0] for hit in by_template} == {"wake"}
    assert {hit.text.split()[1] for hit in by_residual} == {"jazz"}


def test_a_hit_says_what_it_is(index):
    hit = index.search("wake jazz")[0]
    assert hit == ("wake jazz", "en", pytest.approx(1, abs=1e-6), 1, searching_key("wake jazz"))
    assert (index.texts[hit.row], index.languages[hit.row]) == (hit.text, hit.language)
    assert len(index) == len(index.texts) == len(index.languages) == 11


def searching_key(text):
    from disent_core.text import text_key

    return text_key(text)


def test_several_queries_have_the_hits_that_each_has_alone(index):
    queries = ["wake jazz", "turn kitchen", "nothing"]
    assert index.search(queries, "residual", 4) == [index.search(query, "residual", 4) for query in queries]


def test_a_search_by_several_embeddings_encodes_once_and_has_the_hits_of_each(index, monkeypatch):
    queries, by, encoded, embed = ["wake jazz", "turn kitchen"], ["residual", "meaning"], [], Trained.embed
    expected = {name: index.search(queries, name, 4, except_same_text=True) for name in by}
    monkeypatch.setattr(Trained, "embed", lambda self, texts, seed: encoded.append(texts) or embed(self, texts, seed))
    assert index.search_each(queries, by, 4, except_same_text=True) == expected
    assert encoded == [queries]


def test_hits_are_by_score_and_then_by_row(index):
    hits = index.search("play", "template", 99)
    assert len(hits) == 11
    assert [(-hit.score, hit.row) for hit in hits] == sorted((-hit.score, hit.row) for hit in hits)


def test_the_language_of_the_query_may_be_left_out(index):
    hits = index.search("wake nine", k=99, language="en", other_language=True)
    assert [hit.text for hit in hits] == ["wake nine", "halt zimmer"]
    with pytest.raises(ValueError, match="other_language= needs the language of the query: language="):
        index.search("wake nine", other_language=True)


def test_a_search_may_be_in_one_language_only(index):
    assert {hit.language for hit in index.search("wake", k=99, only_language="de")} == {"de"}
    with pytest.raises(ValueError, match="the index has no text in 'fr'; it has de, en"):
        index.search("wake", only_language="fr")


def test_the_query_itself_may_be_left_out(index):
    hits = index.search("wake nine", k=99, except_same_text=True)
    assert len(hits) == 9
    assert "wake nine" not in [hit.text for hit in hits]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"texts": "x", "by": "shape"},
            r"no 'shape' \(facet on tiny, en-de\); choose one of meaning, template, residual",
        ),
        ({"texts": "x", "k": 0}, "k is 0; it must be at least 1"),
        ({"texts": []}, "there is no query"),
        ({"texts": ["x", " "]}, "a query is empty"),
    ],
)
def test_what_is_wrong_with_a_question_is_told(index, arguments, message):
    with pytest.raises(ValueError, match=message):
        index.search(**arguments)


def test_a_head_that_needs_a_language_is_asked_in_one(tmp_path):
    spoken = model(languages={"en", "de"})
    index = disent.Index.build(tmp_path / "index", spoken, TEXTS, language="en")
    assert index.search("wake nine", language="de")[0].text == "wake nine"
    with pytest.raises(ValueError, match="name the language of the texts"):
        index.search("wake nine")
    with pytest.raises(CorpusError, match="texts:1: no language is named, and the head needs one of de, en"):
        disent.Index.build(tmp_path / "other", spoken, TEXTS)


@pytest.mark.parametrize(
    ("texts", "message"),
    [("one text", "texts must be a list of texts, not one text"), ([], "there are no texts"), ((), "there are no te")],
)
def test_an_index_is_made_of_a_list_of_texts(tmp_path, texts, message):
    with pytest.raises(ValueError, match=message):
        disent.Index.build(tmp_path / "index", model(), texts)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("texts", [[1], ["a", None]])
def test_only_texts_are_encoded(texts):
    with pytest.raises(ValueError, match=f"a text is a str, and text {len(texts)} is a (int|NoneType)"):
        model().encode(texts)


@pytest.mark.parametrize("call", [lambda tagger: tagger.encode("x"), lambda tagger: tagger.encode_all(["x"])])
def test_a_tagger_that_is_to_embed_is_refused(call):
    with pytest.raises(ValueError, match=r"facet tags the slots of sentences and does not embed; call label\(\)"):
        call(model(embeddings=(), languages={"de"}))


@pytest.mark.parametrize("sentences", ["weck mich", ["weck mich um neun uhr"]])
def test_sentences_to_tag_are_lists_of_words(sentences):
    with pytest.raises(ValueError, match="a sentence to tag is a list of words"):
        model(embeddings=(), languages={"de"}).label(sentences, language="de")


def test_a_tagger_says_which_languages_it_has():
    with pytest.raises(ValueError, match="this head tags de only, not 'en'"):
        model(embeddings=(), languages={"de"}).label([["wake"]], language="en")


def test_texts_that_can_not_be_stored_are_refused(tmp_path):
    with pytest.raises(CorpusError, match="texts:2: the sentence is empty"):
        disent.Index.build(tmp_path / "index", model(), ["a", " "])


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"embeddings": ()}, "facet tags the slots of sentences and does not embed"),
        ({"settings": "test"}, "facet subtracts the mean of all texts that are encoded together"),
    ],
)
def test_a_head_without_a_vector_for_each_text_is_refused(tmp_path, head, message):
    with pytest.raises(ValueError, match=message):
        disent.Index.build(tmp_path / "index", model(**head), TEXTS)


# --- the head of an index ---------------------------------------------------------------------------------


@pytest.fixture
def loaded(monkeypatch):
    """Replaces `load`; the paths that were loaded."""
    paths = []

    def load(path, *, seed, device, encoder):
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


def test_the_head_is_loaded_when_it_is_first_used(kept, loaded):
    index = disent.Index.open(kept, device="cpu")
    assert (index.head_title, loaded) == ("facet on tiny, en-de", [])
    index.search("wake")
    index.search("play")
    assert loaded == [(kept.parent / "heads" / "en-de.safetensors", None, "cpu")]


def test_an_index_finds_its_head_after_both_or_one_has_moved(kept, loaded, tmp_path):
    os.rename(kept, tmp_path / "moved")  # noqa: PTH104 - as a user does
    assert disent.Index.open(tmp_path / "moved").search("wake")
    os.rename(tmp_path / "moved", kept)  # noqa: PTH104
    os.rename(tmp_path / "project", tmp_path / "renamed")  # noqa: PTH104
    assert disent.Index.open(tmp_path / "renamed" / "index").search("wake")


def test_a_head_that_is_gone_may_be_named(kept, loaded, tmp_path):
    head = kept.parent / "heads" / "en-de.safetensors"
    os.rename(head, tmp_path / "elsewhere")  # noqa: PTH104
    with pytest.raises(TrainingError, match=r"its head \(facet on tiny, en-de\) is not where it was. Name it as head="):
        disent.Index.open(kept).search("wake")
    assert disent.Index.open(kept, head=tmp_path / "elsewhere").search("wake")
    assert disent.Index.open(kept, head=model()).search("wake")


def test_a_head_that_was_trained_again_is_refused(kept, loaded):
    (kept.parent / "heads" / "en-de.safetensors").write_text("other weights", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"its head is not the one that made this index \(facet on tiny, en-de\)"):
        disent.Index.open(kept).search("wake")


def test_a_head_without_a_file_has_to_be_named(index):
    with pytest.raises(TrainingError, match=r"its head \(facet on tiny, en-de\) has no file. Name it as head="):
        disent.Index.open(index.folder).search("wake")


def test_an_index_is_extended_by_its_own_head_only(index):
    with pytest.raises(TableError, match="as it was trained before"):
        disent.Index.build(index.folder, model(content="others"), ["x"])


def test_an_unknown_option_of_a_search_is_refused(index):
    with pytest.raises(TypeError, match=r"unexpected.*same_text.*except_same_text"):
        index.search("wake", same_text=True)

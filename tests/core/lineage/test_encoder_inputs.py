"""What encoders that are made here are made from: training texts only, which they follow when these grow."""

import polars as pl
import pytest
from corpus_rows import write_pairs, write_utterances
from hypothesis import given
from hypothesis import strategies as st
from table_loops import loop_in_two_splits
from worlds import corpus, encoder, experiment

from disent_core.encoders.kinds.distilled import steps
from disent_core.encoders.kinds.scratch.steps import _training_pairs, _training_texts
from disent_core.errors import EncoderError
from disent_core.lineage.corpora import _in_two_splits
from disent_core.lineage.embeddings import EncoderWorkspace, make_encoder
from disent_core.lineage.workspace import Workspace
from tests.core.tiny_teacher import save_teacher

STUDENT = {"teacher": "english", "corpora": ["bitext"]}
SHORT = {"max_steps": 2, "validate_steps": 1, "precision": "float32"}
TEXT = (
    corpus("massive", languages=["en-US", "de-DE"])
    + corpus("bitext", "moses", pairs=["en-de", "es-en"])
    + corpus("tatoeba", "tatoeba", pairs=["de-en"])
    + encoder("english", "huggingface", path="english", pooling="mean", max_length=32)
    + encoder("aligned", "distilled", **STUDENT, train=False)
    + encoder("multi", "distilled", **STUDENT, **SHORT, max_length=32)
    + encoder("multi_low", "distilled", **STUDENT, **SHORT, layer=[0, 1], max_length=16)
    + encoder("specialist", "distilled", teacher="english", corpora=["bitext", "massive"])
    + experiment()
)
UTTERED = {  # id: split, English, German
    "1": ("train", "play jazz", "spiel jazz"),
    "2": ("dev", "wake me up", "weck mich"),
    "3": ("test", "call mum", "ruf mama an"),
    "4": ("train", "Call mum!", "Ruf Mama an"),
}
BITEXT = {
    "en-de": [
        ("train", "good day", "guten tag"),
        ("train", "Wake me up.", "Wecken Sie mich!"),  # MASSIVE dev
        ("train", "call my mother", "Ruf Mama an!"),  # MASSIVE test
        ("train", "where is it?", "wo ist es?"),  # Tatoeba
        ("train", "Held out", "anders"),
        ("dev", "held out", "abseits"),
        ("dev", "where is it", "wo denn"),  # Tatoeba
        ("test", "last", "letzter"),
        ("train", "LAST!", "zuletzt"),
    ],
    "es-en": [("train", "buenos dias", "good day"), ("train", "abseits", "off"), ("dev", "hola", "hello")],
}
TATOEBA = {"de-en": [("test", "Wo ist es", "Where is it")]}


@pytest.fixture
def workspace(load, tmp_path):
    world = Workspace(load(TEXT), tmp_path)
    for column, language in enumerate(("en", "de"), start=1):
        rows = [(name, columns[0], columns[column]) for name, columns in UTTERED.items()]
        write_utterances(world, "massive", language, rows)
    for name, pairs in (("bitext", BITEXT), ("tatoeba", TATOEBA)):
        for pair, rows in pairs.items():
            write_pairs(world, name, pair, rows)
    return world


def material_of(workspace, name):
    return steps.material_of(workspace.config.encoders[name], EncoderWorkspace(workspace))


def align(workspace, name):
    return make_encoder(workspace, name, "aligned")


def pairs(parts):
    return {(part.corpus, part.language): list(part.pairs) for part in parts}


def test_distillation_never_trains_on_dev_or_test_texts(workspace):
    material = material_of(workspace, "multi")
    assert pairs(material.training) == {
        ("bitext", "de"): [("good day", "guten tag")], ("bitext", "es"): [("good day", "buenos dias")],
    }  # fmt: skip
    assert material.dropped == 6
    assert pairs(material.held_out) == {
        ("bitext", "de"): [("held out", "abseits")], ("bitext", "es"): [("hello", "hola")],
    }  # fmt: skip


def test_utterances_are_paired_by_id_without_evaluation_texts(workspace):
    training = pairs(material_of(workspace, "specialist").training)
    assert training["massive", "de"] == [("play jazz", "spiel jazz")]
    held_out = [pairs(material_of(workspace, name).held_out) for name in ("specialist", "multi")]
    assert held_out[0] == held_out[1]


def test_encoders_with_equal_alignment_settings_share_the_aligned_encoder(workspace):
    config = workspace.config
    first, multi, specialist = (config.encoders[name] for name in ("aligned", "multi", "specialist"))
    aligned_by = [settings.aligned_by(config) for settings in (first, multi, specialist)]
    assert aligned_by == ["aligned", "aligned", "specialist"]
    assert multi.alignment_version(config) == first.alignment_version(config)
    assert multi.student_version(config) != first.student_version(config)


@pytest.fixture
def taught(workspace):
    save_teacher(workspace.config.resolve("english"))
    return workspace


def test_alignment_and_distillation_run_once_and_record_their_data(taught):
    with pytest.raises(EncoderError, match="Materialise the asset embeddings/aligned/aligned_aligned first"):
        make_encoder(taught, "multi")
    first, student = align(taught, "aligned"), make_encoder(taught, "multi")
    assert (first.is_reused, student.is_reused) == (False, False)
    assert (align(taught, "aligned").is_reused, make_encoder(taught, "multi").is_reused) == (True, True)
    assert (align(taught, "aligned").content, make_encoder(taught, "multi").content) == (first.content, student.content)
    assert (student.figures["pairs"], student.figures["dropped_pairs"], student.figures["steps"]) == (2, 6, 2)
    record = (taught.encoder("multi") / "distillation.json").read_text()
    assert all(f'"{corpus.name}"' in record for corpus in taught.config.corpora)
    assert '"encoder_saw": "bitext"' in record


def test_an_encoder_of_other_layers_has_a_copy_of_the_student(taught):
    align(taught, "aligned")
    with pytest.raises(EncoderError, match="Materialise the asset embeddings/multi/multi_encoder first"):
        make_encoder(taught, "multi_low")
    student, copied = make_encoder(taught, "multi"), make_encoder(taught, "multi_low")
    assert (copied.is_reused, make_encoder(taught, "multi_low").is_reused) == (False, True)
    assert copied.content != student.content  # other layers are other vectors
    files, others = (sorted(taught.encoder(name).iterdir()) for name in ("multi", "multi_low"))
    assert [(file.name, file.read_bytes()) for file in files] == [(file.name, file.read_bytes()) for file in others]


def test_new_translations_encode_only_new_sentences_and_change_the_encoder(taught):
    def made():
        return align(taught, "aligned"), make_encoder(taught, "multi")

    first, student = made()
    write_pairs(taught, "bitext", "en-de", [*BITEXT["en-de"], ("train", "good night", "gute nacht")])
    grown, grown_student = made()
    assert [each.figures["sentences_encoded_by_teacher"] for each in (student, grown_student)] == [1, 1]
    assert grown.content != first.content
    assert grown_student.content != student.content


ROWS = st.lists(st.tuples(*map(st.sampled_from, ("ab", "xyz", ("train", "dev", "test")))), max_size=12)


@given(ROWS)
def test_counting_sentences_in_two_splits_equals_a_loop(rows):
    frame = pl.DataFrame(rows, schema=["corpus", "source_key", "split"], orient="row")
    assert _in_two_splits(frame, "source_key") == loop_in_two_splits(rows)


PRETRAINED = (
    corpus("toy", languages=["en-US", "de-DE"])
    + corpus("bitext", "moses", pairs=["en-de"])
    + corpus("sts", "sts", pairs=["en-en"])
    + encoder("small")
    + experiment()
)
SPLIT_OF = {"1": "train", "2": "train", "3": "dev", "4": "train"}
LANGUAGES = {"en": ("4123", ""), "de": ("213", "german ")}
PAIRS = [("text 1", "eins"), ("zwei", "text 2"), ("held", "out")]


@pytest.fixture
def pretrained(load, tmp_path):
    toy_workspace = Workspace(load(PRETRAINED), tmp_path)
    for language, (order, prefix) in LANGUAGES.items():
        write_utterances(toy_workspace, "toy", language, [(i, SPLIT_OF[i], f"{prefix}text {i}") for i in order])
    splits = ("train", "train", "test")
    write_pairs(toy_workspace, "bitext", "en-de", [(split, *pair) for split, pair in zip(splits, PAIRS, strict=True)])
    return toy_workspace


def test_training_texts_are_distinct_and_in_the_order_of_the_tables(pretrained):
    of_tables = [f"{prefix}text {i}" for order, prefix in LANGUAGES.values() for i in order if SPLIT_OF[i] == "train"]
    of_pairs = [text for pair in PAIRS[:2] for text in pair]
    assert list(_training_texts(EncoderWorkspace(pretrained))) == list(dict.fromkeys(of_tables + of_pairs))


def test_training_pairs_are_the_shared_utterances_in_the_order_of_the_left_then_the_sentence_pairs(pretrained):
    shared = [(f"text {i}", f"german text {i}") for i in "12"]
    assert list(_training_pairs(EncoderWorkspace(pretrained))) == [*shared, *PAIRS[:2]]

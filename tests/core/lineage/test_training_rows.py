"""Tests checks of sentence pairs, and the texts that an encoder is pretrained on, against loops over rows."""

import polars as pl
import pytest
from corpus_rows import write_pairs, write_utterances
from hypothesis import given
from hypothesis import strategies as st
from table_loops import loop_in_two_splits
from worlds import corpus, encoder, experiment

from disent_core.encoders.kinds.scratch.steps import _training_pairs, _training_texts
from disent_core.lineage.corpora import _in_two_splits
from disent_core.lineage.embeddings import EncoderWorkspace
from disent_core.lineage.workspace import Workspace

ROWS = st.lists(st.tuples(*map(st.sampled_from, ("ab", "xyz", ("train", "dev", "test")))), max_size=12)


@given(ROWS)
def test_sentences_in_two_splits_are_counted_as_a_loop_counts_them(rows):
    frame = pl.DataFrame(rows, schema=["corpus", "source_key", "split"], orient="row")
    assert _in_two_splits(frame, "source_key") == loop_in_two_splits(rows)


TEXT = (
    corpus("toy", languages=["en-US", "de-DE"])
    + corpus("bitext", "moses", pairs=["en-de"])
    + corpus("sts", "sts", pairs=["en-en"])
    + encoder("small")
    + experiment()
)
SPLITS = {"1": "train", "2": "train", "3": "dev", "4": "train"}
LANGUAGES = {"en": ("4123", ""), "de": ("213", "german ")}
PAIRS = [("text 1", "eins"), ("zwei", "text 2"), ("held", "out")]


@pytest.fixture
def workspace(load, tmp_path):
    toy_workspace = Workspace(load(TEXT), tmp_path)
    for language, (order, prefix) in LANGUAGES.items():
        write_utterances(toy_workspace, "toy", language, [(i, SPLITS[i], f"{prefix}text {i}") for i in order])
    splits = ("train", "train", "test")
    write_pairs(toy_workspace, "bitext", "en-de", [(split, *pair) for split, pair in zip(splits, PAIRS, strict=True)])
    return toy_workspace


def test_training_texts_are_distinct_and_in_the_order_of_the_tables(workspace):
    of_tables = [f"{prefix}text {i}" for order, prefix in LANGUAGES.values() for i in order if SPLITS[i] == "train"]
    of_pairs = [text for pair in PAIRS[:2] for text in pair]
    assert list(_training_texts(EncoderWorkspace(workspace))) == list(dict.fromkeys(of_tables + of_pairs))


def test_training_pairs_are_the_shared_utterances_in_the_order_of_the_left_then_the_sentence_pairs(workspace):
    shared = [(f"text {i}", f"german text {i}") for i in "12"]
    assert list(_training_pairs(EncoderWorkspace(workspace))) == [*shared, *PAIRS[:2]]

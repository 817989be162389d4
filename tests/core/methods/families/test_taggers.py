"""TWOSL and token classification as methods: a run of several seeds from utterances to a file that labels."""

from dataclasses import replace

import pytest
import torch
from slot_sentences import tagged_data, tagged_sentences

from disent_core.errors import EncoderError, TrainingError
from disent_core.methods import method
from disent_core.methods.families.tagger import tagged_sentences as sentences_of
from disent_core.methods.spec import HeadFiles, HeadSpec, describe_head
from disent_core.methods.trainer import TrainedLabeller, train_head, trainer
from disent_core.methods.twosl import TokenClassificationConfig, TwoSlConfig
from disent_core.storage.tables import SCHEMAS, read_table
from disent_core.training.data import Utterances
from disent_core.training.epoch import Fit

SETTINGS = {
    "twosl": TwoSlConfig(
        examples=12, max_span=3, max_positive_pairs=20, contrastive_epochs=2, filter_hidden=(8,), filter_epochs=3,
        type_hidden=(8,), type_epochs=4,
    ),
    "token_classification": TokenClassificationConfig(examples=12, epochs=3),
}  # fmt: skip
STAGES = {"twosl": 9, "token_classification": 3}
TEST = [sentence.tokens for sentence in tagged_sentences(6, seed=5)]


def head_files(folder):
    return HeadFiles(folder / "de.safetensors", folder / "curve.parquet", folder / "checkpoints" / "en-de.safetensors")


def train(name, files, folder, *, seeds=(0, 1), **changed):
    settings = replace(SETTINGS[name], **changed)
    run = HeadSpec(name=name, method=method(name), settings=settings, encoder="tiny", trained_on="en-de",
                  seeds=seeds, data_fingerprint="data", encoder_fingerprint=files.fingerprint)  # fmt: skip
    return train_head(run, head_files(folder), lambda: tagged_data(files), device="cpu")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_tagger_run_saves_weights_of_all_seeds_and_a_training_curve(name, files, tmp_path):
    report = train(name, files, tmp_path)
    curve = read_table(head_files(tmp_path).curve, SCHEMAS["training_curve"])
    rows = [(row["seed"], row["epoch"]) for row in curve.to_pylist() if row["term"] == "total"]
    assert rows == [(seed, epoch + 1) for seed in (0, 1) for epoch in range(STAGES[name])]
    assert report.epochs == len(rows)
    assert report.steps == 2 * 3 or name == "twosl"
    described, content = describe_head(head_files(tmp_path).weights)
    assert (content, list(described["seeds"])) == (report.content, [0, 1])
    trained = trainer(method(name)).load(head_files(tmp_path).weights, SETTINGS[name], "cpu", files)
    assert isinstance(trained, TrainedLabeller)
    assert trained.languages == ("de",)
    for seed in (1, 0):
        assert [len(tags) for tags in trained.label(TEST, "de", seed)] == [len(tokens) for tokens in TEST]
    assert list((tmp_path / "checkpoints").iterdir()) == []
    with pytest.raises(ValueError, match="one of its seeds"):
        trained.label(TEST, "de", None)
    with pytest.raises(TrainingError, match="no weights of seed 7"):
        trained.label(TEST, "de", 7)


def test_transfer_trains_on_both_languages(files, tmp_path):
    name = "token_classification"
    report = train(name, files, tmp_path, seeds=(0,), transfer="sequential")
    assert report.epochs == 2 * STAGES[name]
    trained = trainer(method(name)).load(head_files(tmp_path).weights, SETTINGS[name], "cpu", files)
    assert trained.languages == ("en", "de")


def test_the_first_language_is_the_transfer_source_and_the_rest_are_targets(files):
    source, target = sentences_of(tagged_data(files, ("en", "de", "tr")))
    assert {sentence.language for sentence in source} == {"en"}
    assert [sentence.language for sentence in target] == ["de"] * 16 + ["tr"] * 16
    source, target = sentences_of(tagged_data(files, ("yo",)))
    assert source == []
    assert [sentence.language for sentence in target] == ["yo"] * 16


def test_an_empty_split_is_an_error_with_a_remedy(files):
    tables = tagged_data(files)
    none = Utterances([], [], [], [], [], torch.zeros(0, dtype=int))
    empty = {"train": tables.utterances["train"], "dev": {"en": none, "de": none}}
    assert sentences_of(replace(tables, utterances=empty))[1]
    with pytest.raises(TrainingError, match=r"en-de has no dev sentence in a target language\. Set split"):
        sentences_of(replace(tables, utterances=empty), "dev")


def test_fine_tuning_without_an_encoder_is_refused(files, tmp_path):
    twosl, bare = trainer(method("twosl")), replace(tagged_data(files), encoder=None)
    with pytest.raises(EncoderError, match="was given none"):
        next(twosl.fit(bare, SETTINGS["twosl"], Fit((0,), tmp_path / "c", "")))
    with pytest.raises(EncoderError, match="was given none"):
        twosl.load(tmp_path / "w", SETTINGS["twosl"], "cpu")

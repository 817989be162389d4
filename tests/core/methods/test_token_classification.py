"""Token classification: words meet their first sub-words, and it learns and saves as TWOSL does."""

import math
from dataclasses import replace

import pytest
import torch
from slot_sentences import tagged_sentences, word_f1
from slot_sentences import train as train_tagger

from disent_core.methods.families.tagger import Tagged
from disent_core.methods.twosl import TOKEN_CLASSIFICATION as METHOD
from disent_core.methods.twosl import TokenClassificationConfig
from disent_core.methods.twosl_head import TokenTagger
from disent_core.storage.weights import merge_weights, read_weights, save_weights

QUICK = TokenClassificationConfig(examples=40, epochs=25, learning_rate=5e-3, dropout=0.0)
SHORT = replace(QUICK, examples=8, epochs=2)
TRAIN, TEST = tagged_sentences(60), tagged_sentences(40, seed=1)


@pytest.fixture(scope="module")
def labeller(files, tmp_path_factory):
    return train(files, tmp_path_factory.mktemp("checkpoints"))


def train(files, checkpoints, config=QUICK, **given):
    return train_tagger(METHOD, TRAIN, config, files, checkpoints, **given)[0]


def weights(labeller):
    return torch.cat([value.flatten() for value in labeller.state_dict().values()])


def test_a_word_is_labelled_on_its_first_sub_word(labeller):
    (words,) = labeller.read([["weather", "in", "rome"]])  # [CLS] wea ther in rom e [SEP]
    assert len(words.ids) == 7
    assert words.positions.tolist() == [1, 3, 4]
    assert words.words.tolist() == [0, 1, 2]


def test_logits_of_a_batch_equal_those_of_one_sentence_at_a_time(labeller):
    read = labeller.eval().read([sentence.tokens for sentence in TEST[:9]])
    with torch.no_grad():
        together, apart = labeller(read), torch.cat([labeller([sentence]) for sentence in read])
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-5)


def test_it_learns_to_tag_unseen_sentences(labeller):
    tags = labeller.label([sentence.tokens for sentence in TEST])
    assert word_f1(TEST, tags) > 0.9


def test_words_that_the_encoder_does_not_see_are_outside(labeller):
    tags = labeller.label([["jazz"] * 60, [], ["rome"]])
    assert [len(sentence) for sentence in tags] == [60, 0, 1]
    assert set(tags[0][38:]) == {"O"}


def test_one_file_holds_every_seed(files, tmp_path):
    by_seed = {seed: train(files, tmp_path / str(seed), SHORT, seed=seed) for seed in (0, 1)}
    parts = {seed: tmp_path / f"{seed}.safetensors" for seed in by_seed}
    for seed, tagger in by_seed.items():
        save_weights(parts[seed], tagger.state_dict(), tagger.description)
    merge_weights(parts, tmp_path / "all.safetensors", {"name": "baseline"})
    assert read_weights(tmp_path / "all.safetensors")[1]["name"] == "baseline"
    for seed, tagger in by_seed.items():
        loaded = TokenTagger.load(tmp_path / "all.safetensors", SHORT, files, "cpu", seed=seed)
        assert torch.equal(weights(loaded), weights(tagger))
    assert not torch.equal(weights(by_seed[0]), weights(by_seed[1]))


def test_a_batch_of_sentences_without_words_costs_nothing(files, tmp_path):
    empty = [Tagged([], [])] * 3
    _, reports = train_tagger(METHOD, [*empty, *TRAIN[:1]], replace(SHORT, examples=0, batch_size=1), files, tmp_path)
    assert all(math.isfinite(report.terms["train"]["total"]) for report in reports)

"""TWOSL from sentences to tags: features, both stages, transfer, and its files."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slot_sentences import TEMPLATES, tagged_sentences, word_f1
from slot_sentences import train as train_tagger
from torch.nn import functional as F

from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.errors import TrainingError
from disent_core.methods.families.tagger import Tagged
from disent_core.methods.twosl import METHOD, TwoSlConfig
from disent_core.methods.twosl_head import (
    SpanTagger,
    contrastive_pairs,
    encode_items,
    probabilities,
    recall_threshold,
    span_items,
    tune_encoder,
)
from disent_core.optimisation.steps import TrainingRun
from disent_core.storage.weights import save_weights

QUICK = TwoSlConfig(
    examples=40, max_span=3, batch_size=16, max_positive_pairs=100, contrastive_epochs=4,
    contrastive_learning_rate=1e-3, filter_hidden=(64,), filter_epochs=20, type_hidden=(64, 32), type_epochs=30,
    classifier_learning_rate=5e-3,
)  # fmt: skip
SHORT = replace(QUICK, examples=8, filter_epochs=1, type_epochs=1, contrastive_epochs=1)
TRAIN, TEST = tagged_sentences(60), tagged_sentences(40, seed=1)
WORDS = sorted({word for template in TEMPLATES for word in template.split() if not word.startswith("{")})


@pytest.fixture(scope="module")
def encoder(files):
    return TunableEncoder(files, "cpu")


@pytest.fixture(scope="module")
def labeller(files, tmp_path_factory):
    return train(files, tmp_path_factory.mktemp("checkpoints"), seed=2)


def train(files, checkpoints, config=QUICK, **given):
    return train_tagger(METHOD, TRAIN, config, files, checkpoints, **given)[0]


def score(labeller):
    tags = labeller.label([sentence.tokens for sentence in TEST], "en")
    return word_f1(TEST, tags)


def naive(files, items, concat_norm):
    from transformers import AutoModel, AutoTokenizer

    model, tokeniser = AutoModel.from_pretrained(files.folder).eval(), AutoTokenizer.from_pretrained(files.folder)
    rows = []
    for masked, span in zip(items.masked, items.texts, strict=True):
        parts = []
        for text in (masked.replace("<mask>", "[MASK]"), span):
            with torch.no_grad():
                parts.append(model(**tokeniser(text, return_tensors="pt")).last_hidden_state[0].mean(0))
        rows.append(torch.cat([part / part.norm() for part in parts] if concat_norm == "l2_each" else parts))
    return torch.stack(rows)


@pytest.mark.parametrize("concat_norm", ["none", "l2_each"])
def test_features_equal_two_calls_of_the_model_for_each_item(files, encoder, concat_norm):
    items = span_items(TRAIN[:6], max_span=3, mask="word")
    features = encode_items(encoder, items, concat_norm=concat_norm)
    vectors = features.take(torch.arange(len(items)))
    torch.testing.assert_close(vectors, naive(files, items, concat_norm), atol=1e-5, rtol=1e-5)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=5).filter(any))
def test_each_distinct_text_is_encoded_once(encoder, sentences):
    items = span_items([Tagged(tokens, ["O"] * len(tokens)) for tokens in sentences], max_span=3, mask="word")
    features = encode_items(encoder, items, concat_norm="none")
    assert (len(features.masked), len(features.spans)) == (len(set(items.masked)), len(set(items.texts)))
    apart = encoder.vectors(items.masked), encoder.vectors(items.texts)
    torch.testing.assert_close(features.take(torch.arange(len(items))), torch.cat(apart, dim=1), atol=1e-5, rtol=0)


def tune(files, checkpoint):
    encoder = TunableEncoder(files, "cpu")
    items = span_items(tagged_sentences(12), max_span=3, mask="word")
    pairs = contrastive_pairs(items.labels, negatives_per_positive=2, max_positive_pairs=40, seed=0)
    config = TwoSlConfig(contrastive_learning_rate=2e-3, weight_decay=0.0, warmup=0.0, lone_pair="extreme")
    run = TrainingRun(stage="contrastive", identity="", seed=0, epochs=6, checkpoint=checkpoint)
    return encoder, items, list(tune_encoder(encoder, items, pairs, config, run))


def test_tuning_brings_spans_of_one_type_together(files, tmp_path):
    encoder, items, epochs = tune(files, tmp_path / "run")
    slots = [place for place, label in enumerate(items.labels) if label]
    labels = [items.labels[place] for place in slots]
    same = torch.tensor([[label == other for other in labels] for label in labels])
    gaps = []
    for source in (TunableEncoder(files, "cpu"), encoder):
        vectors = F.normalize(encode_items(source, items, concat_norm="none").take(torch.tensor(slots)), dim=-1)
        cosine = vectors @ vectors.T
        gaps.append(float(cosine[same].mean() - cosine[~same].mean()))
    assert gaps[1] > 2 * gaps[0] > 0
    assert epochs[-1].terms["train"]["total"] < epochs[0].terms["train"]["total"]
    untouched = TunableEncoder(files, "cpu").state_dict()
    assert [name for name, value in encoder.state_dict().items() if torch.equal(value, untouched[name])] == []


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_the_threshold_is_the_largest_with_the_wanted_recall(values, recall):
    threshold = recall_threshold(torch.tensor(values), recall)
    share = np.mean([value >= threshold for value in values])
    larger = [value for value in values if value > threshold]
    assert share >= recall
    assert not larger or len(larger) / len(values) < recall


def test_twosl_learns_to_tag_every_word_of_unseen_sentences(labeller):
    assert score(labeller) > 0.9
    sentences = [["thank", "you"], [], ["unheard", "words", "at", "nine"]]
    assert [len(tags) for tags in labeller.label(sentences)] == [2, 0, 4]


def test_twosl_learns_with_the_other_settings(files, tmp_path):
    other = {"none_sampling": 4, "mask": "span", "loss": "paper_eq", "concat_norm": "l2_each", "overlap": "overwrite"}
    assert score(train(files, tmp_path, replace(QUICK, filter=False, **other), seed=2)) > 0.5


def test_without_the_contrastive_stage_twosl_learns_less(files, labeller, tmp_path):
    assert score(train(files, tmp_path, replace(QUICK, contrastive=False), seed=2)) < score(labeller) - 0.2


def test_the_tuned_threshold_reaches_its_recall_and_is_saved(files, tmp_path):
    config = replace(SHORT, examples=0, filter_recall=0.9)
    labeller = train(files, tmp_path, config)
    items = span_items(TRAIN, max_span=3, mask="word")
    slots = torch.tensor([place for place, label in enumerate(items.labels) if label])
    probability = probabilities(labeller.filter, labeller.features(items), slots)[:, 1]
    assert (probability >= labeller.threshold - 1e-6).float().mean() == pytest.approx(0.9, abs=0.05)
    save_weights(tmp_path / "weights.safetensors", labeller.state_dict(), labeller.description)
    loaded = SpanTagger.load(tmp_path / "weights.safetensors", config, files, "cpu")
    assert loaded.threshold == labeller.threshold != config.filter_threshold


def test_a_labeller_loaded_from_its_file_tags_alike(files, labeller, tmp_path):
    save_weights(tmp_path / "weights.safetensors", labeller.state_dict(), labeller.description)
    loaded = SpanTagger.load(tmp_path / "weights.safetensors", QUICK, files, "cpu")
    sentences = [sentence.tokens for sentence in TEST]
    assert loaded.label(sentences) == labeller.label(sentences)
    with pytest.raises(TrainingError, match="tuned from another encoder, tiny, not other"):
        SpanTagger.load(tmp_path / "weights.safetensors", QUICK, replace(files, fingerprint="other"), "cpu")


def test_training_stages_are_reported_in_order_and_replayed_if_done(files, tmp_path):
    config = replace(SHORT, transfer="sequential")
    given = (METHOD, TRAIN, config, files, tmp_path)
    first, again = (train_tagger(*given, source=TEST[:8])[1] for _ in range(2))
    order = [f"{phase}_{stage}" for phase in ("source", "target") for stage in ("contrastive", "filter", "types")]
    assert [report.stage for report in first] == [report.stage for report in again] == order
    assert [report.is_replayed for report in (*first, *again)] == [False] * 6 + [True] * 6


def test_transfer_from_a_source_language_improves_tagging(files, tmp_path):
    config = replace(QUICK, examples=4, sample="cover_types", type_epochs=4, filter_epochs=4)
    alone = train(files, tmp_path / "alone", config)
    transferred = train(files, tmp_path / "transfer", replace(config, transfer="sequential"), source=TRAIN)
    assert score(transferred) > score(alone) + 0.1


def test_types_of_both_languages_are_known_after_transfer(files, tmp_path):
    source = [Tagged(["play", "rock"], ["O", "B-genre"]), Tagged(["jazz"], ["B-genre"])]
    labeller = train(files, tmp_path, replace(SHORT, transfer="sequential"), source=source)
    assert labeller.classes == ("city", "day", "genre", "music", "time")


def test_too_little_to_train_on_is_refused(files, tmp_path):
    plain = [Tagged(["thank", "you"], ["O", "O"])] * 9
    with pytest.raises(TrainingError, match="no training sentence has a slot"):
        train_tagger(METHOD, plain, SHORT, files, tmp_path)
    with pytest.raises(TrainingError, match="transfer is 'sequential', but there is no sentence"):
        train_tagger(METHOD, TRAIN, replace(SHORT, transfer="sequential"), files, tmp_path)
    long = [Tagged(["new", "york"], ["B-city", "I-city"])] * 8
    with pytest.raises(TrainingError, match="no target sentence has a slot of at most 1 words"):
        train_tagger(METHOD, long, replace(SHORT, max_span=1, contrastive=False), files, tmp_path)

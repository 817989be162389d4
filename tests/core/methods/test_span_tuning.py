"""The contrastive stage brings spans of one type together."""

import pytest
import torch
from slot_sentences import tagged_sentences, tiny_bert
from torch.nn import functional as F

from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.methods.twosl import TwoSlConfig
from disent_core.methods.twosl_head import encode_items, tune_encoder
from disent_core.methods.twosl_spans import contrastive_pairs, span_items
from disent_core.optimisation.steps import TrainingRun


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"))


def tune(files, checkpoint, **changed):
    encoder = TunableEncoder(files, "cpu")
    items = span_items(tagged_sentences(12), max_span=3, mask="word")
    pairs = contrastive_pairs(items.labels, negatives_per_positive=2, max_positive_pairs=40, seed=0)
    config = TwoSlConfig(contrastive_learning_rate=2e-3, weight_decay=0.0, warmup=0.0, lone_pair="extreme", **changed)
    run = TrainingRun(stage="contrastive", identity="", seed=0, epochs=6, checkpoint=checkpoint)
    return encoder, items, list(tune_encoder(encoder, items, pairs, config, run))


@pytest.mark.parametrize("form", ["sbert", "paper_eq"])
def test_tuning_brings_spans_of_one_type_together(files, tmp_path, form):
    encoder, items, epochs = tune(files, tmp_path / "run", loss=form)
    slots = [place for place, label in enumerate(items.labels) if label]
    labels = [items.labels[place] for place in slots]
    same = torch.tensor([[one == other for other in labels] for one in labels])
    gaps = []
    for own in (TunableEncoder(files, "cpu"), encoder):
        vectors = F.normalize(encode_items(own, items, concat_norm="none").take(torch.tensor(slots)), dim=-1)
        cosine = vectors @ vectors.T
        gaps.append(float(cosine[same].mean() - cosine[~same].mean()))
    assert gaps[1] > 2 * gaps[0] > 0
    assert epochs[-1].terms["train"]["total"] < epochs[0].terms["train"]["total"]


def test_tuning_twice_gives_the_same_weights_and_all_of_them_move(files, tmp_path):
    (one, _, _), (other, _, _) = tune(files, tmp_path / "one"), tune(files, tmp_path / "other")
    untouched = TunableEncoder(files, "cpu").state_dict()
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
        assert not torch.equal(value, untouched[name]), name

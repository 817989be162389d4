"""The gradient of DREAM's loss that is written out is that of autograd."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic import DIM, random_rows, world

from disent_core.matmul import set_precision
from disent_core.methods import oracle
from disent_core.methods.dream import METHOD, DreamConfig
from disent_core.methods.dream_head import DreamHead
from disent_core.methods.trainer import trainer
from disent_core.training import stacked
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler, next_of_its_language

SIDES = ("source", "target")
TERMS = ("reconstruction", "meaning_parallel", "meaning_random", "language_embedding", "language_identification")
CONFIG = DreamConfig(partner="next_in_batch", learning_rate=0.01, batch_size=5, max_epochs=2, checkpoint_seconds=0.0)


def batch_of(vectors, labels):
    following = next_of_its_language(labels)
    of_sides = {
        f"{side}_{name}": value[row]
        for row, side in enumerate(SIDES)
        for name, value in (("vectors", vectors), ("language", labels), ("next_in_batch", following))
    }
    return {"role_vectors": vectors, **of_sides}


def both_ways(head, batch, weights):
    written = head.terms_and_gradient({name: value.detach() for name, value in head.named_parameters()}, batch, weights)
    terms, parameters = head(batch), dict(head.named_parameters())
    total = sum(value * weights.get(name, 1.0) for name, value in terms.items())
    return written, (terms, dict(zip(parameters, torch.autograd.grad(total, list(parameters.values())), strict=True)))


@st.composite
def batches(draw):
    """Vectors of few pairs, some of them equal or zero, in up to four languages."""
    pairs, dim = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    vectors = random_rows(2 * pairs, dim, seed=draw(st.integers(0, 1000))).double()
    copied = draw(st.lists(st.integers(0, 2 * pairs - 1), min_size=2 * pairs, max_size=2 * pairs))
    vectors = vectors[copied] if draw(st.booleans()) else vectors
    vectors[draw(st.lists(st.integers(0, 2 * pairs - 1)))] = 0
    labels = draw(st.lists(st.integers(0, 3), min_size=2 * pairs, max_size=2 * pairs))
    return batch_of(vectors.view(2, pairs, dim), torch.tensor(labels).view(2, pairs))


@given(batches(), st.dictionaries(st.sampled_from(TERMS), st.floats(0, 3)), st.booleans())
def test_terms_and_gradient_are_those_of_autograd(batch, weights, has_biases):
    torch.manual_seed(0)
    head = DreamHead(batch["role_vectors"].shape[2], 4, CONFIG).double()
    if not has_biases:  # so that a zero vector has zero rows, whose gradient is 1e8 times as large: only biases get it
        for part in (head.meaning, head.language):
            torch.nn.init.zeros_(part.bias)
    (terms, gradient), (expected_terms, expected) = both_ways(head, batch, weights)
    assert {name: value.item() for name, value in terms.items()} == pytest.approx(
        {name: value.item() for name, value in expected_terms.items()}, abs=1e-12
    )
    assert gradient.keys() == expected.keys()
    for name, value in expected.items():
        rounding = 1e-6 if name.endswith("bias") and not has_biases else 1e-12
        assert torch.allclose(gradient[name], value, rtol=1e-9, atol=rounding), name


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("bfloat16", 1e-3)])
def test_the_written_gradient_equals_autograd_in_each_precision(precision, tolerance):
    torch.manual_seed(0)
    head = DreamHead(64, 4, CONFIG)
    set_precision(head, precision)
    batch = batch_of(random_rows(80, 64, seed=1).float().view(2, 40, 64), torch.arange(80).view(2, 40) % 4)
    (_, gradient), (_, expected) = both_ways(head, batch, {})
    for name, value in expected.items():
        assert (gradient[name] - value).norm() < tolerance * value.norm(), name


class ByAutograd(DreamHead):
    """The same head; a subclass might have other terms, so autograd trains it."""


def trained(path, head, config, seeds):
    sampler = PairSampler(world("en-de", "en-es").data, draws=("next_in_batch",))
    epochs = list(stacked.fit(lambda: head(DIM, 3, config), sampler, config, Fit(seeds, path, "run")))
    return epochs, stacked.best_parameters(path)


def test_training_with_the_written_gradient_equals_autograd(tmp_path):
    config = replace(CONFIG, weights={"meaning_random": 0.3})
    epochs, heads = trained(tmp_path / "written", DreamHead, config, (3, 4))
    assert not ByAutograd(DIM, 3, config).has_gradient
    expected_epochs, expected = trained(tmp_path / "autograd", ByAutograd, config, (3, 4))
    for epoch, other in zip(epochs, expected_epochs, strict=True):
        assert epoch.terms["train"].keys() == other.terms["train"].keys()
        for name, values in other.terms["train"].items():
            assert epoch.terms["train"][name] == pytest.approx(values, abs=1e-4)
    for seed, parameters in expected.items():
        for name, value in parameters.items():
            assert torch.allclose(heads[seed][name], value, atol=1e-4), name


def test_on_a_cpu_one_seed_trains_like_several(tmp_path, monkeypatch):
    monkeypatch.setattr(stacked, "_step", None)
    _, together = trained(tmp_path / "together", DreamHead, CONFIG, (3, 4))
    for seed in (3, 4):
        _, alone = trained(tmp_path / str(seed), DreamHead, CONFIG, (seed,))
        assert all(torch.equal(value, alone[seed][name]) for name, value in together[seed].items())


@pytest.mark.parametrize(
    ("method", "changes", "has"),
    [
        (METHOD, {}, True),
        (METHOD, {"without": ("language",)}, False),
        (METHOD, {"language_repulsion": True}, False),
        (METHOD, {"partner": "same_language"}, False),
        (oracle.DREAM_ORACLE, {}, False),
    ],
    ids=lambda value: value if isinstance(value, dict) else None,
)
def test_the_written_gradient_covers_paper_terms_with_in_batch_partners(method, changes, has):
    config = replace(method.presets["fast"], **changes)
    assert trainer(method).head(DIM, 2, config).has_gradient is has

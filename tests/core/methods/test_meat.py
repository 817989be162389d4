"""MEAT equals its formulas, written as loops over pairs, and its two steps touch what they should."""

from dataclasses import replace

import pytest
import torch
from loops import (
    DIM,
    LANGUAGES,
    PAIRS,
    SIDES,
    batch_of,
    cosine,
    cross_entropy,
    hinge,
    mean,
    plus,
    split,
    through,
    values,
)

from disent_core.methods.dream import MEAT, MeatConfig
from disent_core.methods.dream_head import MeatHead

MODES = ("uniform_ce", "grad_reversal", "negative_ce")


def head(**switches) -> MeatHead:
    torch.manual_seed(0)
    return MeatHead(DIM, LANGUAGES, MeatConfig(**switches)).double()


def distance(kind, found, wanted):
    if kind == "cosine":
        return 1 - cosine(found, wanted)
    return mean([(a - b) ** 2 for a, b in zip(found, wanted, strict=True)])


def loop_terms(model: MeatHead, batch) -> dict[str, float]:
    parts, kind = {side: split(model, batch, side) for side in SIDES}, model.config.reconstruction
    terms = dict.fromkeys(("reconstruction", "cross_reconstruction", "language_repulsion", "adversarial"), 0.0)
    for i in range(PAIRS):
        (e_s, s_m, s_l), (e_t, t_m, t_l) = ([part[i] for part in parts[side]] for side in SIDES)
        terms["reconstruction"] += (distance(kind, plus(s_m, s_l), e_s) + distance(kind, plus(t_m, t_l), e_t)) / PAIRS
        crossed = distance(kind, plus(s_m, t_l), e_t) + distance(kind, plus(t_m, s_l), e_s)
        terms["cross_reconstruction"] += crossed / PAIRS
        terms["language_repulsion"] += hinge(cosine(s_l, t_l)) / PAIRS
        for side, meaning in (("source", s_m), ("target", t_m)):
            logits, label = through(model.discriminator, meaning), int(batch[f"{side}_language"][i])
            to_uniform = mean([cross_entropy(logits, language) for language in range(LANGUAGES)])
            owed = {
                "uniform_ce": to_uniform,
                "grad_reversal": cross_entropy(logits, label),
                "negative_ce": -cross_entropy(logits, label),
            }
            terms["adversarial"] += owed[model.config.adversarial] / PAIRS
    return terms


@pytest.mark.parametrize("reconstruction", ["cosine", "mse"])
@pytest.mark.parametrize("adversarial", MODES)
def test_every_term_equals_a_loop_over_pairs(adversarial, reconstruction):
    model, batch = head(adversarial=adversarial, reconstruction=reconstruction), batch_of(*SIDES)
    assert values(model(batch)) == pytest.approx(loop_terms(model, batch), abs=1e-9)


def test_the_discriminator_minimises_its_cross_entropy():
    model, batch = head(), batch_of(*SIDES)
    expected = sum(
        cross_entropy(through(model.discriminator, meaning), int(label)) / PAIRS
        for side in SIDES
        for meaning, label in zip(split(model, batch, side)[1], batch[f"{side}_language"], strict=True)
    )
    assert values(model.adversary_terms(model.encode(batch))) == pytest.approx({"discriminator": expected})


def gradients(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: value for name, value in zip(names, found, strict=True) if value is not None}


def test_reversal_gives_the_maps_the_opposite_gradient_and_the_discriminator_its_own():
    batch = batch_of(*SIDES)
    reversed_, negative = head(adversarial="grad_reversal"), head(adversarial="negative_ce")
    found = gradients(reversed_, reversed_(batch)["adversarial"])
    expected = gradients(negative, negative(batch)["adversarial"])
    assert found.keys() == expected.keys() > {"discriminator.weight", "meaning.weight"}
    for name, value in expected.items():
        sign = -1 if name.startswith("discriminator") else 1
        assert torch.allclose(found[name], sign * value), name


def test_only_reversal_has_no_step_of_the_adversary_alone():
    assert {mode: head(adversarial=mode).adversary for mode in MODES} == {
        "uniform_ce": "discriminator",
        "grad_reversal": "",
        "negative_ce": "discriminator",
    }
    with pytest.raises(ValueError, match=r"adversary_learning_rate has no meaning with adversarial = 'grad_reversal'"):
        MeatConfig(adversarial="grad_reversal", adversary_learning_rate=1e-4)


def test_terms_without_the_adversarial_one_do_not_reach_the_discriminator():
    model = head()
    terms = model(batch_of(*SIDES))
    found = gradients(model, sum(value for name, value in terms.items() if name != "adversarial"))
    assert found.keys() == {"meaning.weight", "meaning.bias", "language.weight", "language.bias"}


def test_the_presets_have_the_published_settings():
    paper, official = MEAT.presets["paper"], MEAT.presets["official_code"]
    for preset in (paper, official):
        assert (preset.learning_rate, preset.batch_size, preset.patience, preset.max_epochs) == (1e-5, 512, 10, 10_000)
        assert (preset.validation_fraction, preset.split_seed, preset.adversarial) == (0.1, 42, "uniform_ce")
    assert replace(paper, monitor="loss", drop_last=True) == official
    assert paper.monitor == "loss_without_adversarial"

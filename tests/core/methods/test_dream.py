"""DREAM equals its formulas, written as loops over pairs and dimensions with plain floats."""

import pytest
import torch
from loops import DIM, LANGUAGES, PAIRS, SIDES, batch_of, cosine, cross_entropy, hinge, split, through, values
from synthetic import world

from disent_core.methods.dream import METHOD, DreamConfig, draws
from disent_core.methods.dream_head import DreamHead
from disent_core.training.sampling import PairSampler

GROUPS = {
    "language": {"language_embedding", "language_identification"},
    "meaning": {"meaning_parallel", "meaning_random"},
}
PARTNERS = {  # of the meaning loss, of the language loss
    "same_language": ("partner", "partner"),
    "random_batch_row": ("other_pair", "partner"),
    "half_batch": ("second_half", "second_half"),
    "next_in_batch": ("next", "next"),
}


def head(**switches) -> DreamHead:
    torch.manual_seed(0)
    return DreamHead(DIM, LANGUAGES, DreamConfig(**switches)).double()


def batch(model: DreamHead):
    rows = batch_of(*PairSampler(world().data, draws=draws(model.config)).roles)
    if model.config.partner == "next_in_batch":
        for side in SIDES:
            following = torch.arange(PAIRS).roll(-1)
            rows |= {f"{side}_next_in_batch": following, f"{side}_next_vectors": rows[f"{side}_vectors"][following]}
    return rows


def loop_terms(model: DreamHead, rows) -> dict[str, float]:
    meaning_partner, language_partner = PARTNERS[model.config.partner]
    terms = dict.fromkeys(("reconstruction", *GROUPS["language"], *GROUPS["meaning"], "language_repulsion"), 0.0)
    parts = {
        role: split(model, rows, role)
        for side in SIDES
        for role in (side, *(f"{side}_{kind}" for kind in set(PARTNERS[model.config.partner])))
    }
    for i in range(PAIRS):
        terms["meaning_parallel"] += (1 - cosine(parts["source"][1][i], parts["target"][1][i])) / PAIRS
        terms["language_repulsion"] += hinge(cosine(parts["source"][2][i], parts["target"][2][i])) / PAIRS
        for side in SIDES:
            e, meaning, language = (part[i] for part in parts[side])
            terms["reconstruction"] += (
                sum((a - (b + c)) ** 2 for a, b, c in zip(e, meaning, language, strict=True)) / DIM / PAIRS
            )
            random = parts[f"{side}_{meaning_partner}"][1][i], parts[f"{side}_{language_partner}"][2][i]
            terms["meaning_random"] += hinge(cosine(meaning, random[0])) / PAIRS
            terms["language_embedding"] += (1 - cosine(language, random[1])) / PAIRS
            label = int(rows[f"{side}_language"][i])
            terms["language_identification"] += cross_entropy(through(model.identity, language), label) / PAIRS
    left_out = set().union(*(GROUPS[group] for group in model.config.without))
    left_out |= set() if model.config.language_repulsion else {"language_repulsion"}
    return {name: value for name, value in terms.items() if name not in left_out}


SWITCHES = [
    {"language_repulsion": True},
    *({"without": groups} for groups in (("language",), ("meaning",), ("language", "meaning"))),
    *({"partner": partner} for partner in PARTNERS),
]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_every_term_equals_a_loop_over_pairs(switches):
    model = head(**switches)
    rows = batch(model)
    assert values(model(rows)) == pytest.approx(loop_terms(model, rows), abs=1e-9)


@pytest.mark.parametrize("preset", METHOD.presets)
def test_gradients_reach_every_parameter_of_each_preset(preset):
    model = head(partner=METHOD.presets[preset].partner)
    sum(model(batch(model)).values()).backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in model.parameters())


def test_the_presets_have_the_settings_of_the_paper_and_of_the_official_code():
    paper = METHOD.presets["paper"]
    assert (paper.learning_rate, paper.batch_size, paper.patience, paper.max_epochs) == (1e-4, 512, 15, 1000)
    assert (paper.validation, paper.validation_fraction) == ("train_fraction", 0.1)
    assert (paper.partner, paper.validation_draws, paper.precision) == ("same_language", "fixed", "float32")
    official = METHOD.presets["official_code"]
    assert (official.partner, official.validation_draws, official.patience) == ("random_batch_row", "each_epoch", 10)

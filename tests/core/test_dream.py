"""DREAM equals its formulas, written as loops over pairs and dimensions with plain floats."""

import math

import pytest
import torch
from synthetic import random_rows

from disent_core.heads.dream import METHOD, DreamConfig, DreamHead

SIDES = ("source", "target")
DIM, PAIRS = 5, 4
GROUPS = {
    "language": {"language_embedding", "language_identification"},
    "meaning": {"meaning_parallel", "meaning_random"},
}


def head(**switches) -> DreamHead:
    torch.manual_seed(0)
    return DreamHead(DIM, 3, DreamConfig(**switches)).double()


def batch_of_pairs() -> dict[str, torch.Tensor]:
    roles = ("source", "target", "source_partner", "target_partner")
    batch = {f"{role}_vectors": random_rows(PAIRS, DIM, seed=seed) for seed, role in enumerate(roles)}
    return batch | {"source_language": torch.tensor([0, 0, 1, 0]), "target_language": torch.tensor([1, 2, 2, 1])}


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def cosine(left, right):
    return dot(left, right) / math.sqrt(dot(left, left)) / math.sqrt(dot(right, right))


def through(layer, x):
    return [dot(row, x) + bias for row, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def loop_terms(own: DreamHead, batch) -> dict[str, float]:
    terms = dict.fromkeys(("reconstruction", *GROUPS["language"], *GROUPS["meaning"]), 0.0)
    for i in range(PAIRS):
        vector = {role: batch[f"{role}_vectors"][i].tolist() for role in (*SIDES, "source_partner", "target_partner")}
        meaning = {role: through(own.meaning, value) for role, value in vector.items()}
        language = {role: through(own.language, value) for role, value in vector.items()}
        terms["meaning_parallel"] += (1 - cosine(meaning["source"], meaning["target"])) / PAIRS
        for side in SIDES:
            parts = zip(vector[side], meaning[side], language[side], strict=True)
            terms["reconstruction"] += sum((e - (m + x)) ** 2 for e, m, x in parts) / DIM / PAIRS
            terms["meaning_random"] += max(0.0, cosine(meaning[side], meaning[f"{side}_partner"])) / PAIRS
            terms["language_embedding"] += (1 - cosine(language[side], language[f"{side}_partner"])) / PAIRS
            logits = through(own.identity, language[side])
            own_logit = logits[batch[f"{side}_language"][i]]
            share = math.exp(own_logit) / sum(math.exp(value) for value in logits)
            terms["language_identification"] -= math.log(share) / PAIRS
    left_out = set().union(*(GROUPS[group] for group in own.without))
    return {name: value for name, value in terms.items() if name not in left_out}


@pytest.mark.parametrize("without", [(), ("language",), ("meaning",), ("language", "meaning")])
def test_every_term_equals_a_loop_over_pairs(without):
    own, batch = head(without=without), batch_of_pairs()
    assert {name: value.item() for name, value in own(batch).items()} == pytest.approx(loop_terms(own, batch))


def test_the_terms_are_the_five_of_the_paper():
    assert set(head()(batch_of_pairs())) == {"reconstruction", *GROUPS["language"], *GROUPS["meaning"]}


def test_random_partners_take_part_in_two_terms_only():
    own, batch = head(), batch_of_pairs()
    others = batch | {f"{side}_partner_vectors": random_rows(PAIRS, DIM, seed=9) for side in SIDES}
    before, after = own(batch), own(others)
    assert {name for name in before if not torch.equal(before[name], after[name])} == {
        "meaning_random",
        "language_embedding",
    }


def test_gradients_reach_every_parameter_of_the_paper_preset():
    own = head()
    sum(own(batch_of_pairs()).values()).backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in own.parameters())


def test_one_optimisation_step_lowers_the_total():
    own, batch = head(), batch_of_pairs()
    optimiser = torch.optim.SGD(own.parameters(), lr=0.01)
    before = sum(own(batch).values())
    before.backward()
    optimiser.step()
    assert sum(own(batch).values()) < before


def test_the_paper_preset_has_the_papers_settings():
    paper = METHOD.presets["paper"]
    assert (paper.learning_rate, paper.batch_size, paper.patience, paper.max_epochs) == (1e-4, 512, 15, 1000)
    assert (paper.validation, paper.validation_fraction) == ("train_fraction", 0.1)

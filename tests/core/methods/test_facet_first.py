"""The first Facet's losses equal loops over pairs and candidates; its embeddings keep what they promise."""

from dataclasses import replace

import pytest
import torch
from fmda_loops import real_tokens
from loops import contrast, cross_entropy, mean, picked, through, unit, values
from synthetic import grouped_texts, random_rows, world

from disent_core.methods.facet import FACET_FIRST as METHOD
from disent_core.methods.facet import FacetFirstConfig
from disent_core.methods.facet_head import ROLES, FacetFirstHead
from disent_core.methods.modules.token_pooling import of_role
from disent_core.methods.trainer import trainer
from disent_core.training.epoch import Fit

DIM, UNITS = 5, {"template_units": 4, "residual_units": 3}
LENGTHS = {
    "source": (4, 6, 3, 5),
    "target": (6, 3, 5, 4),
    "source_slot_swap": (3, 6, 4, 5),
    "target_slot_swap": (5, 3, 6, 4),
}
TEXTS = torch.tensor([[0, 1, 2, 3], [10, 11, 12, 13], [20, 1, 22, 23], [30, 11, 32, 33]])
"""Numbers of the texts by role: the second pair has no slot, so both of its slot_swaps are itself."""


def head(**changes):
    torch.manual_seed(0)
    config = FacetFirstConfig(**UNITS, precision="float32", temperature=0.3, template_temperature=0.7, **changes)
    return FacetFirstHead(DIM, 2, config).double()


def batch_of_pairs(texts=TEXTS):
    rows, batch = {}, {"role_texts": texts}
    for seed, (role, lengths) in enumerate(LENGTHS.items()):
        grouped = grouped_texts(lengths, DIM, seed=seed)
        batch |= {f"{role}_{name}": value for name, value in grouped.items()}
        rows[role] = random_rows(len(lengths), DIM, seed=seed + 50)
    for side, label in (("source", 0), ("target", 1)):
        batch[f"{side}_language"] = torch.full((len(texts[0]),), label)
    return batch | {"role_vectors": torch.stack([rows[role] for role in ROLES])}


def facets(model, batch, role):
    """Meaning, template and residual of each text of a role, token by token."""
    embeddings = []
    for row in range(len(LENGTHS[role])):
        answers = [through(model.units, token) for token in real_tokens(batch, role, row)]
        maxima = [max(column) for column in zip(*answers, strict=True)]
        template, residual = unit(maxima[:4]), unit(maxima[4:])
        embeddings.append({"template": template, "residual": residual, "meaning": unit(template + residual)})
    return embeddings


def loop_meaning(model, batch, *, slot_swaps=True):
    texts = batch["role_texts"].tolist()
    meaning = {role: [text["meaning"] for text in facets(model, batch, role)] for role in ROLES}
    losses, count = [], len(texts[0])
    for side, other in (("source", "target"), ("target", "source")):
        mine, theirs, slot_swap = (texts[ROLES.index(role)] for role in (side, other, f"{other}_slot_swap"))
        for i in range(count):
            allowed = {j for j in range(count) if j == i or (mine[j] != mine[i] and theirs[j] != theirs[i])}
            allowed |= {count + j for j in range(count) if slot_swaps and slot_swap[j] != theirs[i]}
            candidates = meaning[other] + meaning[f"{other}_slot_swap"]
            losses.append(picked(meaning[side][i], candidates, sorted(allowed), i, model.config.temperature))
    return mean(losses)


def loop_template(model, batch):
    texts = dict(zip(ROLES, batch["role_texts"].tolist(), strict=True))
    template = {role: [text["template"] for text in facets(model, batch, role)] for role in ROLES}
    pairs = [(side, f"{side}_slot_swap") for side in ("source", "target")]
    return mean([
        contrast(template[side], template[swap], texts[side], texts[swap], model.config.template_temperature)
        for side, swap in pairs
    ])  # fmt: skip


def terms(model, batch):
    return values(model(batch))


# --- losses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts",
    [TEXTS, torch.tensor([[0, 1, 0, 3], [10, 11, 12, 11], [20, 1, 20, 23], [30, 11, 32, 10]])],
    ids=["distinct", "copies"],
)
def test_both_contrasts_equal_loops_over_pairs_and_candidates(texts):
    model, batch = head(), batch_of_pairs(texts)
    found = terms(model, batch)
    assert found["meaning_contrast"] == pytest.approx(loop_meaning(model, batch), abs=1e-9)
    assert found["template_contrast"] == pytest.approx(loop_template(model, batch), abs=1e-9)


def test_without_slot_swaps_only_translations_are_candidates():
    batch = batch_of_pairs()
    model = head(without=("mate_negatives",))
    assert terms(model, batch)["meaning_contrast"] == pytest.approx(
        loop_meaning(model, batch, slot_swaps=False), abs=1e-9
    )
    assert terms(head(), batch)["meaning_contrast"] > terms(model, batch)["meaning_contrast"]


def test_language_identification_is_a_loop_over_the_texts_of_both_sides():
    model, batch = head(), batch_of_pairs()
    vectors = [(vector, side) for side in (0, 1) for vector in batch["role_vectors"][side].tolist()]
    expected = [cross_entropy(through(model.language, vector), side) for vector, side in vectors]
    assert terms(model, batch)["language_identification"] == pytest.approx(mean(expected), abs=1e-9)


@pytest.mark.parametrize(
    ("without", "left_out"),
    [(("template_contrast",), {"template_contrast"}), (("mate_negatives",), set())],
)
def test_without_leaves_out_its_term(without, left_out):
    batch = batch_of_pairs()
    assert set(head()(batch)) - set(head(without=without)(batch)) == left_out


def test_each_loss_reaches_the_units_it_is_about():
    model, batch = head(), batch_of_pairs()
    found = model(batch)
    (of_template,) = torch.autograd.grad(found["template_contrast"], [model.units.weight], retain_graph=True)
    (of_meaning,) = torch.autograd.grad(found["meaning_contrast"], [model.units.weight], retain_graph=True)
    assert (of_template[:4].abs().sum(dim=1) > 0).all()
    assert (of_template[4:] == 0).all()
    assert (of_meaning.abs().sum(dim=1) > 0).all()


# --- embeddings -------------------------------------------------------------------------------------------


def test_embeddings_equal_loops_over_tokens_and_units():
    model, batch = head(), batch_of_pairs()
    found = model.embed(of_role(batch, "source") | {"vectors": batch["role_vectors"][0]})
    for row, expected in enumerate(facets(model, batch, "source")):
        for name, vector in expected.items():
            assert found[name][row].tolist() == pytest.approx(vector, abs=1e-9)


def test_the_language_embedding_is_one_of_as_many_vectors_as_there_are_languages():
    model, batch = head(), batch_of_pairs()
    vectors = random_rows(len(LENGTHS["source"]), DIM, seed=9)
    language = model.embed(of_role(batch, "source") | {"vectors": vectors})["language"]
    assert language.tolist() == torch.eye(2)[model.language(vectors).argmax(dim=1)].tolist()


# --- training ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_lowers_the_loss(tmp_path, precision):
    config = FacetFirstConfig(**UNITS, max_epochs=4, batch_size=6, precision=precision)
    epochs = list(trainer(METHOD).fit(world().data, config, Fit([0, 1], tmp_path / "all", "run")))
    first, last = (epoch.terms["train"]["total"] for epoch in (epochs[0], epochs[-1]))
    assert all(after < before for before, after in zip(first, last, strict=True))


def test_translations_alone_need_no_template_pairs(tmp_path):
    config = FacetFirstConfig(**UNITS, max_epochs=1, without=("template_contrast", "mate_negatives"))
    data = replace(world().data, template_pairs={})
    epochs = list(trainer(METHOD).fit(data, config, Fit([0], tmp_path / "x", "run")))
    assert set(epochs[0].terms["train"]) == {"meaning_contrast", "language_identification", "total"}


def test_the_cosine_schedule_falls_from_the_learning_rate_to_almost_nothing():
    config = FacetFirstConfig(learning_rate=0.02, max_epochs=4)
    expected = [1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]
    assert [config.in_epoch(epoch).learning_rate for epoch in range(4)] == pytest.approx([0.02 * x for x in expected])
    assert FacetFirstConfig(schedule="constant").in_epoch(3) == FacetFirstConfig(schedule="constant")

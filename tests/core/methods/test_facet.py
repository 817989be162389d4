"""Facet and the first Facet: losses equal loops over pairs and candidates; embeddings keep what they promise."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from fmda_loops import real_tokens
from loops import contrast, cosine, cross_entropy, mean, picked, through, unit, values
from synthetic import grouped_texts, random_rows, world

from disent_core.methods.facet import FACET_FIRST, METHOD, FacetConfig, FacetFirstConfig
from disent_core.methods.facet_head import ROLES, FacetFirstHead, FacetTask, LanguageEraser, neighbours_together
from disent_core.methods.lexicon_head import MatedPairsTask, pair_bags
from disent_core.methods.modules.token_pooling import of_role
from disent_core.methods.trainer import trainer
from disent_core.training.data import ParallelMates, TextFeatures
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler

SMALL = {"template_units": 4, "residual_units": 3, "template_words": 5, "residual_words": 2, "epochs": 2,
         "batch_size": 5, "at_least": 1, "checkpoint_seconds": 1e-9}  # fmt: skip


def data(*, mates=True):
    """12 training pairs, of which two thirds have a mate: their text "with another value"."""
    made = world().data
    if not mates:
        return made
    rows = made.template_pairs["train"].text
    sources, targets = made.splits["train"].text.values()
    of_source = {int(source): int(mate) for source, mate in zip(rows["source"], rows["target"], strict=True)}
    pair = torch.tensor([place for place, row in enumerate(sources.tolist()) if row in of_source])
    mate = {
        side: torch.tensor([of_source[row] for row in numbers[pair].tolist()])
        for side, numbers in (("source", sources), ("target", targets))
    }
    texts = {side: [f"{side} mate {row}" for row in rows.tolist()] for side, rows in mate.items()}
    return replace(made, mates={"train": ParallelMates(pair, torch.zeros_like(pair), texts, mate)})


def task(**changes):
    few = {"precision": "float32", "temperature": 0.3, "template_temperature": 0.7, "neighbours": 3}
    config = FacetConfig(**SMALL, **few | changes)
    made = data(mates="mates" not in config.without)
    torch.manual_seed(0)
    return FacetTask(pair_bags(made), PairSampler(made, states=config.reads_states), config, 0)


def parts(model, number):
    text = model.sampler.text(model.data.rows[[number]])
    tokens = text["states_0"][0][text["mask_0"][0]].tolist()
    maxima = [max(column) for column in zip(*(through(model.head.units, token) for token in tokens), strict=True)]
    words = model.head.words(model.data.bags.take(torch.tensor([number])))[0].tolist()
    return [unit(maxima[:4]), unit(maxima[4:]), unit(words[:5]), unit(words[5:])]


def loops(model, batch):
    count, sides = len(batch.chosen), batch.pairs.T.tolist()
    text_parts = [[parts(model, number) for number in side] for side in sides]
    meaning = [[[*a, *b, *c, *d] for a, b, c, d in side] for side in text_parts]
    template = [[[*text[0], *text[2]] for text in side] for side in text_parts]
    residual = [[[*text[1], *text[3]] for text in side] for side in text_parts]
    mates = batch.mate_of.tolist()

    def meanings(rows):
        return contrast(rows[0], rows[1], *sides, model.config.temperature)

    def templates(rows):
        return mean([
            contrast(texts[:count], [texts[mate] for mate in mates], side[:count], [side[mate] for mate in mates],
                     model.config.template_temperature)
            for texts, side in zip(rows, sides, strict=True)
        ])  # fmt: skip

    def alone(view):
        kept = [[text[2 * view : 2 * view + 2] for text in side] for side in text_parts]
        of_templates = templates([[a for a, _ in side] for side in kept])
        return meanings([[[*a, *b] for a, b in side] for side in kept]) + model.config.template_weight * of_templates

    vectors = model.sampler.data.vectors.take(model.data.rows).tolist()
    with_mates = [(place, mate) for place, mate in enumerate(mates) if mate >= count]
    apart = [cosine(texts[place], texts[mate]) for texts in residual for place, mate in with_mates]
    assert min(apart, default=-1.0) < 0  # the loss of such a pair is 0
    return {
        "meaning_contrast": meanings(meaning),
        "template_contrast": templates(template),
        "reading_contrast": alone(0) + alone(1),
        "residual_repulsion": mean([max(0.0, between) for between in apart]),
        "language_identification": mean([
            cross_entropy(through(model.head.language, vectors[number]), label)
            for label, side in enumerate(sides) for number in side[:count]
        ]),
    }  # fmt: skip


def test_every_facet_loss_equals_loops_over_pairs_mates_and_candidates():
    model = task(repulsion=0.4, reading_weight=0.3, template_weight=1.7)
    batch = model.batches(0)[0]
    batch.pairs[1, 0] = batch.pairs[0, 0]
    model.head.units.bias.data[4:] -= 0.8  # so that some residuals repel each other already
    terms, count = model.loss(batch)
    expected = loops(model, batch)
    total = sum(expected.values()) - 0.6 * expected["residual_repulsion"] - 0.7 * expected["reading_contrast"]
    total += 0.7 * expected["template_contrast"]
    assert 0 < len(batch.pairs) - count < count == 5
    assert values(terms) == pytest.approx(expected | {"total": total}, abs=1e-5)


@pytest.mark.parametrize("candidates", ["other_language", "all_languages"])
def test_mates_differing_by_residual_give_templates_no_gradient(candidates):
    model, free = (task(candidates=candidates, mates_differ_by=by) for by in ("residual", "all_parts"))
    batch = model.batches(0)[0]
    rows = torch.nn.functional.normalize(random_rows(4, len(batch.pairs), 3, seed=0), dim=-1)
    template, residual = (part.requires_grad_() for part in rows.view(2, 2, -1, 3))
    embedded = {"meaning": torch.cat([template, residual], dim=-1) * 0.5**0.5, "template": template}
    by_matrix, moved = (MatedPairsTask.terms(of, embedded, batch)["meaning_contrast"] for of in (model, free))
    expected = by_loop(model, batch, template, residual)
    gradients = [torch.autograd.grad(loss, (template, residual), retain_graph=True) for loss in (by_matrix, expected)]
    assert by_matrix.item() == pytest.approx(expected.item()) == pytest.approx(moved.item())
    assert all(torch.allclose(*both, atol=1e-6) for both in zip(*gradients, strict=True))
    assert not torch.allclose(torch.autograd.grad(moved, template)[0], gradients[0][0], atol=1e-3)


def by_loop(model, batch, template, residual):
    """Pick the translation of each text; a mate's cosine has the template as a constant."""
    texts, losses = batch.pairs.tolist(), []
    mates = {(i, j) for i, j in enumerate(batch.mate_of.tolist()) if i != j}
    one_pool = model.config.candidates == "all_languages"

    def logit(side, i, other, j):
        shared = template[side, i] @ template[other, j]
        shared = shared.detach() if (i, j) in mates or (j, i) in mates else shared
        return (shared + residual[side, i] @ residual[other, j]) / 2 / model.config.temperature

    for side, i in itertools.product(range(2), range(len(texts))):
        sides = (0, 1) if one_pool else (1 - side,)
        others = [j for j in range(len(texts)) if not set(texts[i]) & set(texts[j])]
        logits = [logit(side, i, 1 - side, i), *(logit(side, i, other, j) for other in sides for j in others)]
        losses.append(torch.stack(logits).logsumexp(0) - logits[0])
    return torch.stack(losses).mean()


@pytest.mark.parametrize(
    ("without", "kept"),
    [((), 4), (("states",), 2), (("words",), 2), (("mates",), 4), (("template_contrast",), 4), (("erasure",), 4)],
)
def test_parts_excluded_by_without_are_not_trained(without, kept):
    model = task(without=without)
    terms, _ = model.loss(model.batches(0)[0])
    assert len(model.head.erasers) == kept
    assert (model.head.units is None) == ("states" in without)
    assert (model.head.words is None) == ("words" in without)
    assert ("reading_contrast" in terms) == (kept == 4)
    assert ("template_contrast" in terms) == (not {"mates", "template_contrast"} & set(without))


def test_batches_group_neighbours_and_are_redrawn_every_epoch():
    """Two clusters far apart, whose pairs alternate: every run of neighbours is of one cluster."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(16, 1) + 0.01 * torch.randn(32, 2)
    order = neighbours_together(vectors, 16, torch.Generator().manual_seed(3))
    assert sorted(order.tolist()) == list(range(32))
    assert all(len(set((run % 2).tolist())) == 1 for run in order.split(16))
    model = task()
    first, again, second = (torch.cat([batch.chosen for batch in model.batches(epoch)]) for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def trained(folder, **changes):
    config = FacetConfig(**SMALL, **changes)
    return config, list(trainer(METHOD).fit(data(), config, Fit([0, 1], folder / "x", "run")))


def saved(folder, config):
    description = {"seeds": [0, 1], "dim": 6, "languages": ["en", "de"]}
    trainer(METHOD).save(folder / "x", folder / "weights.safetensors", description)
    return trainer(METHOD).load(folder / "weights.safetensors", config, "cpu")


def features():
    made = data()
    utterances = made.utterances["train"]
    rows = torch.cat([utterances[language].rows for language in ("en", "de")])
    texts = [text for language in ("en", "de") for text in utterances[language].texts]
    return TextFeatures(made.vectors, rows, made.states, made.state_rows[rows], "en", texts)


def test_the_sentence_weight_changes_only_the_meaning_and_not_the_training(tmp_path):
    (alone, reports), (config, joined) = trained(tmp_path / "a"), trained(tmp_path / "b", sentence_weight=0.3)
    assert [epoch.terms for epoch in joined] == [epoch.terms for epoch in reports]
    before, after = (
        saved(tmp_path / name, with_).embed(features(), 1) for name, with_ in (("a", alone), ("b", config))
    )
    assert all(np.array_equal(before[name], after[name]) for name in ("template", "residual", "language"))
    vectors = torch.nn.functional.normalize(features().vectors.take(features().rows), dim=-1)
    languages = torch.arange(24) // 12
    eraser = LanguageEraser(vectors.shape[1])
    eraser.fit(vectors, languages, config.kept_variance)
    sentences, meanings, joint = (
        torch.as_tensor(each).double() for each in (eraser(vectors), before["meaning"], after["meaning"])
    )
    expected = 0.7 * meanings @ meanings.T + 0.3 * sentences @ sentences.T
    assert torch.allclose(joint @ joint.T, expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{"without": ("words",)}, {"without": ("states",)}, {"sentence_weight": 0.5}], ids=str
)
def test_trained_parts_have_equal_means_in_both_languages(tmp_path, changes):
    config, _ = trained(tmp_path, **changes)
    embedded = saved(tmp_path, config).embed(features(), 1)
    for name in ("meaning", "template", "residual"):
        english, german = torch.from_numpy(embedded[name]).split(12)
        assert torch.allclose(english.mean(dim=0), german.mean(dim=0), atol=1e-5)
    assert sorted(set(embedded["language"].sum(axis=1))) == [1.0]


def test_without_erasure_language_means_differ(tmp_path):
    config, _ = trained(tmp_path, without=("erasure",))
    head = saved(tmp_path, config)
    english, german = torch.from_numpy(head.embed(features(), 0)["meaning"]).split(12)
    assert not torch.allclose(english.mean(dim=0), german.mean(dim=0), atol=1e-3)
    with pytest.raises(ValueError, match="features have no texts"):
        head.embed(replace(features(), texts=None), 0)
    with pytest.raises(ValueError, match="both states and words"):
        FacetConfig(without=("states", "words"))


def test_training_lowers_the_loss(tmp_path):
    _, (first, second, *_) = trained(tmp_path, precision="bfloat16")
    assert second.terms["train"]["total"] < first.terms["train"]["total"]


DIM, UNITS = 5, {"template_units": 4, "residual_units": 3}
LENGTHS = {
    "source": (4, 6, 3, 5),
    "target": (6, 3, 5, 4),
    "source_slot_swap": (3, 6, 4, 5),
    "target_slot_swap": (5, 3, 6, 4),
}
TEXTS = torch.tensor([[0, 1, 0, 3], [10, 11, 12, 11], [20, 1, 20, 23], [30, 11, 32, 10]])
"""Texts by role, with copies: the second pair has no slot, so both of its slot_swaps are itself."""


def first_head(**changes):
    torch.manual_seed(0)
    config = FacetFirstConfig(**UNITS, precision="float32", temperature=0.3, template_temperature=0.7, **changes)
    return FacetFirstHead(DIM, 2, config).double()


def batch_of_pairs():
    rows, batch = {}, {"role_texts": TEXTS}
    for seed, (role, lengths) in enumerate(LENGTHS.items()):
        grouped = grouped_texts(lengths, DIM, seed=seed)
        batch |= {f"{role}_{name}": value for name, value in grouped.items()}
        rows[role] = random_rows(len(lengths), DIM, seed=seed + 50)
    for side, label in (("source", 0), ("target", 1)):
        batch[f"{side}_language"] = torch.full((len(TEXTS[0]),), label)
    return batch | {"role_vectors": torch.stack([rows[role] for role in ROLES])}


def facets(model, batch, role):
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


@pytest.mark.parametrize("swaps", [True, False], ids=["with slot swaps", "translations alone"])
def test_every_term_of_the_first_facet_equals_loops_over_pairs_and_candidates(swaps):
    model, batch = first_head(without=() if swaps else ("mate_negatives",)), batch_of_pairs()
    vectors = [(vector, side) for side in (0, 1) for vector in batch["role_vectors"][side].tolist()]
    expected = {
        "meaning_contrast": loop_meaning(model, batch, slot_swaps=swaps),
        "template_contrast": loop_template(model, batch),
        "language_identification": mean([cross_entropy(through(model.language, row), side) for row, side in vectors]),
    }
    assert values(model(batch)) == pytest.approx(expected, abs=1e-9)


def test_facet_embeddings_equal_loops_and_the_language_is_one_hot():
    model, batch = first_head(), batch_of_pairs()
    vectors = batch["role_vectors"][0]
    embeddings = model.embed(of_role(batch, "source") | {"vectors": vectors})
    for row, expected in enumerate(facets(model, batch, "source")):
        for name, vector in expected.items():
            assert embeddings[name][row].tolist() == pytest.approx(vector, abs=1e-9)
    assert embeddings["language"].tolist() == torch.eye(2)[model.language(vectors).argmax(dim=1)].tolist()


def test_training_lowers_the_loss_of_the_first_facet(tmp_path):
    config = FacetFirstConfig(**UNITS, max_epochs=4, batch_size=6, precision="bfloat16")
    epochs = list(trainer(FACET_FIRST).fit(world().data, config, Fit([0, 1], tmp_path / "all", "run")))
    first, last = (epoch.terms["train"]["total"] for epoch in (epochs[0], epochs[-1]))
    assert all(after < before for before, after in zip(first, last, strict=True))


def test_training_on_translations_only_needs_no_template_pairs(tmp_path):
    config = FacetFirstConfig(**UNITS, max_epochs=1, without=("template_contrast", "mate_negatives"))
    data = replace(world().data, template_pairs={})
    epochs = list(trainer(FACET_FIRST).fit(data, config, Fit([0], tmp_path / "x", "run")))
    assert set(epochs[0].terms["train"]) == {"meaning_contrast", "language_identification", "total"}


def test_the_cosine_schedule_falls_from_the_learning_rate_to_almost_nothing():
    config = FacetFirstConfig(learning_rate=0.02, max_epochs=4)
    expected = [1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]
    assert [config.in_epoch(epoch).learning_rate for epoch in range(4)] == pytest.approx([0.02 * x for x in expected])
    assert FacetFirstConfig(schedule="constant").in_epoch(3) == FacetFirstConfig(schedule="constant")

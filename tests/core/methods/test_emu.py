"""EMU: what a step changes and what it leaves, and the terms of a batch, against loops over plain floats."""

import math
from dataclasses import replace

import pytest
import torch
from loops import cross_entropy, dot, through, values
from synthetic import DIM, world

from disent_core.errors import TrainingError
from disent_core.methods import emu_head
from disent_core.methods.emu import ContrastiveConfig, EmuConfig, NPairConfig
from disent_core.methods.emu_head import (
    ContrastiveTask,
    EmuTask,
    LabelPool,
    NPairTask,
    intent_accuracy,
    intent_data,
    intent_tasks,
)
from disent_core.optimisation.seeds import generator
from disent_core.settings import LARGEST

WORLD = world("en-de", "en-es")


@pytest.fixture(autouse=True)
def a_small_discriminator(monkeypatch):
    """Loops over 900 x 900 weights take seconds."""
    monkeypatch.setattr(emu_head, "_HIDDEN", 12)


def config(**changes) -> EmuConfig:
    return EmuConfig(**{"tune": "head", "batch_size": 5, **changes})


def task(config_of_task=None, kind=EmuTask, data=None, **changes):
    config_of_task = config_of_task or config(**changes)
    torch.manual_seed(0)
    built = intent_tasks(kind, data or WORLD.data, config_of_task, "cpu")(0).double()
    built.inputs = built.inputs.double()
    with torch.no_grad():
        built.source.map.weight.add_(0.1 * torch.randn(DIM, DIM, dtype=torch.float64))
    return built


def snapshot(module):
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def changed(before, after):
    return {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}


ACTIVATIONS = {"leaky_relu": lambda x: x if x > 0 else 0.2 * x, "relu": lambda x: max(0.0, x), "tanh": math.tanh}


def loop_terms(emu: EmuTask, batch) -> dict[str, float]:
    """In evaluation mode: no dropout, and running centers stay."""
    settings = emu.config
    texts = emu.inputs.tolist()
    embed = lambda row: through(emu.source.map, texts[row])  # noqa: E731
    labels = emu.data.labels[batch["rows"]].tolist()
    vectors = [embed(row) for row in batch["rows"].tolist()]
    scaled = [[settings.alpha * value / math.sqrt(dot(u, u)) for value in u] for u in vectors]
    classification = center = adversary = 0.0
    centers = emu.centers.tolist()
    if settings.centers == "batch":
        for label in set(labels):
            members = [u for u, y in zip(vectors, labels, strict=True) if y == label]
            centers[label] = [sum(column) / len(members) for column in zip(*members, strict=True)]
    for u, unit, y in zip(vectors, scaled, labels, strict=True):
        classification += cross_entropy(through(emu.classifier, unit), y)
        center += sum((a - b) ** 2 for a, b in zip(u, centers[y], strict=True)) / 2
    others = [row for row in batch["adversarial"][:, -1].tolist() if row >= 0]
    pairs = [(u, embed(v)) for u, v in zip(vectors, batch["adversarial"][:, -1].tolist(), strict=True) if v >= 0]
    for u, v in pairs:
        a, b = loop_logit(emu, u), loop_logit(emu, v)
        ce = math.log(1 + math.exp(-a)) + math.log(1 + math.exp(b))
        adversary -= settings.gamma * (ce if settings.disc_loss == "ce_clip" else b - a)
    count = len(vectors)
    return {
        "classification": classification / count,
        "center": settings.center_weight * center / (1 if settings.center_reduction == "sum" else count),
        "adversary": adversary / max(len(others), 1),
    }


def loop_logit(emu: EmuTask, x) -> float:
    if emu.config.disc_input == "normalised":
        x = [emu.config.alpha * value / math.sqrt(dot(x, x)) for value in x]
    for index in (0, 3):
        x = [ACTIVATIONS[emu.config.disc_activation](value) for value in through(emu.discriminator[index], x)]
    return through(emu.discriminator[6], x)[0]


SWITCHES = {
    "paper": {},
    "alpha": {"alpha": 3.0},
    "centers_batch": {"centers": "batch"},
    "centers_learned": {"centers": "learned"},
    "center_mean": {"center_reduction": "mean", "center_weight": 0.3},
    "wgan": {"disc_loss": "wgan", "gamma": 0.5},
    "relu": {"disc_activation": "relu", "gamma": 0.5},
    "tanh": {"disc_activation": "tanh", "gamma": 0.5},
    "normalised": {"disc_input": "normalised", "gamma": 0.5},
    "translation": {"adversary": "translation", "gamma": 0.5},
}


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_the_terms_of_a_batch_equal_loops_over_utterances(switches):
    emu = task(**switches).eval()
    with torch.no_grad():
        emu.centers.add_(torch.randn(emu.centers.shape, generator=generator(1), dtype=torch.float64))
        for parameter in emu.discriminator.parameters():
            parameter.mul_(3)  # logits that are not next to nothing
    for batch in emu.batches(0):
        with torch.no_grad():
            terms = emu.terms(batch, emu.vectors)
        assert values(terms) == pytest.approx(loop_terms(emu, batch), abs=1e-6)


def test_an_utterance_without_translation_is_skipped_by_the_adversary():
    emu = task(adversary="translation", gamma=0.5).eval()
    batch = dict(emu.batches(0)[0])
    batch["adversarial"] = batch["adversarial"].clone()
    batch["adversarial"][:2] = -1
    with torch.no_grad():
        terms = emu.terms(batch, emu.vectors)
    assert float(terms["adversary"]) == pytest.approx(loop_terms(emu, batch)["adversary"], abs=1e-6)
    batch["adversarial"][:] = -1
    assert emu.terms(batch, emu.vectors)["adversary"] == 0


def test_encoder_steps_and_discriminator_updates_change_disjoint_parameters():
    emu = task().train()
    before = snapshot(emu)
    emu.update_discriminator(emu.batches(0)[0])
    assert changed(before, snapshot(emu)) == {"discriminator"}
    assert all(value.grad is None for name, value in emu.named_parameters() if "discriminator" not in name)
    emu = task(gamma=1.0).train()
    before = snapshot(emu)
    super(EmuTask, emu).step(emu.batches(0)[0])
    assert changed(before, snapshot(emu)) == {"source", "classifier", "centers"}
    assert all(value.grad is None for value in emu.discriminator.parameters())


def test_every_weight_of_the_discriminator_is_within_the_clip_after_each_update(monkeypatch):
    emu = task(clip=0.003).train()
    seen, clip_ = [], type(emu.discriminator).clip_

    def watched(self, bound):
        clip_(self, bound)
        seen.append(max(float(value.detach().abs().max()) for value in self.parameters()))

    monkeypatch.setattr(type(emu.discriminator), "clip_", watched)
    emu.update_discriminator(emu.batches(0)[0])
    assert len(seen) == 5
    assert all(largest <= 0.003 for largest in seen)


def test_discriminator_updates_lower_its_loss_and_encoder_steps_raise_it():
    emu = task(gamma=1e3, clip=1.0, learning_rate=0.01).eval()  # without dropout
    batch = emu.batches(0)[0]
    repeated = {name: value[:, -1:].expand(-1, 6) for name, value in batch.items() if value.ndim == 2}

    def loss():
        with torch.no_grad():
            return float(emu.terms(batch, emu.vectors)["adversary"]) / -emu.config.gamma

    at_first = loss()
    emu.update_discriminator({**batch, **repeated})
    fooled = loss()
    assert fooled < at_first
    super(EmuTask, emu).step(batch)
    assert loss() > fooled


def test_the_adversarys_gradient_reaches_the_encoder_from_both_languages():
    emu = task(gamma=1.0).eval()
    batch = emu.batches(0)[0]
    for role in ("rows", "adversarial"):
        rows = batch["rows"] if role == "rows" else batch["adversarial"][:, -1]
        emu.inputs.requires_grad_().grad = None
        emu.terms(batch, emu.vectors)["adversary"].backward()
        assert (emu.inputs.grad[rows] != 0).any(dim=1).all()


def test_the_discriminator_has_two_layers_of_900_and_one_logit(monkeypatch):
    monkeypatch.undo()
    shapes = [tuple(value.shape) for value in emu_head.Discriminator(768, "leaky_relu").parameters() if value.ndim > 1]
    assert shapes == [(900, 768), (900, 900), (1, 900)]


def test_running_centers_move_in_training_only_and_learned_ones_are_trained():
    emu = task().eval()
    batch = emu.batches(0)[0]
    before = emu.centers.clone()
    emu.terms(batch, emu.vectors)
    assert torch.equal(emu.centers, before)
    emu.train().terms(batch, emu.vectors)
    assert not torch.equal(emu.centers, before)
    assert not emu.centers.requires_grad
    emu = task(centers="learned", center_weight=0.1).train()
    before = emu.centers.detach().clone()
    emu.step(emu.batches(0)[0])
    assert not torch.equal(emu.centers, before)


def test_one_pass_for_all_updates_equals_a_pass_for_each():
    emu, other = task().eval(), task().eval()
    batch = emu.batches(0)[0]
    emu.update_discriminator(batch)
    for update in range(5):
        part = {name: batch[name][:, [update, -1]] for name in ("labelled", "adversarial")}
        other.update_discriminator(part)
    for name, value in other.discriminator.state_dict().items():
        assert torch.allclose(value, emu.discriminator.state_dict()[name], atol=1e-9), name


def language_of(data, row):
    return data.texts[row].split()[1]


def test_adversarial_utterances_of_an_update_share_one_non_english_language():
    emu = task()
    languages = set()
    for batch in emu.batches(0):
        assert {language_of(emu.data, row) for row in batch["labelled"].flatten().tolist()} == {"en"}
        assert torch.equal(batch["labelled"][:, -1], batch["rows"])
        for others in batch["adversarial"].T:
            (language,) = {language_of(emu.data, row) for row in others.tolist()}
            languages.add(language)
    assert languages == {"de", "es"}


def test_every_epoch_has_each_labelled_utterance_once_in_a_new_order():
    emu = task()
    first, second = (torch.cat([batch["rows"] for batch in emu.batches(epoch)]) for epoch in (0, 1))
    assert sorted(first.tolist()) == sorted(second.tolist()) == emu.data.labelled.tolist()
    assert not torch.equal(first, second)


def test_the_parallel_adversary_is_the_translation_with_the_same_unambiguous_id():
    emu = task(adversary="translation")
    for batch in emu.batches(0):
        for left, right in zip(
            batch["labelled"].flatten().tolist(), batch["adversarial"].flatten().tolist(), strict=True
        ):
            assert emu.data.texts[left].split()[2] == emu.data.texts[right].split()[2]
            assert language_of(emu.data, right) != "en"
    data = WORLD.data
    twice = replace(data.utterances["train"]["de"], ids=["0", "0", *data.utterances["train"]["de"].ids[2:]])
    utterances = {**data.utterances, "train": {**data.utterances["train"], "de": twice}}
    roles = intent_data(replace(data, utterances=utterances))
    german = [language_of(roles, int(pool[0])) for pool in roles.adversarial].index("de")
    assert roles.translations[german, :3].tolist() == [-1, -1, int(roles.adversarial[german][2])]


@pytest.mark.parametrize(
    ("toy", "chosen", "labelled", "adversaries"),
    [
        (WORLD, {}, {"en"}, ["de", "es"]),
        (WORLD, {"training": ("de", "es")}, {"de", "es"}, ["en"]),
        (WORLD, {"adversarial": ("es",)}, {"en"}, ["es"]),
        (world("de-es"), {}, {"de"}, ["es"]),  # without English the first language is the training language
    ],
)
def test_language_settings_determine_labelled_and_adversarial_languages(toy, chosen, labelled, adversaries):
    roles = intent_data(toy.data, **chosen)
    assert {language_of(roles, row) for row in roles.labelled.tolist()} == labelled
    assert [language_of(roles, int(pool[0])) for pool in roles.adversarial] == adversaries
    assert all(row >= roles.first_dev for row in roles.dev_labelled.tolist())


def test_unknown_languages_and_missing_intents_are_errors():
    with pytest.raises(TrainingError, match=r"not languages of this head: fr"):
        intent_data(WORLD.data, ("fr",))
    with pytest.raises(TrainingError, match="no other class"):
        task(training_languages=("en", "de", "es"))
    data = WORLD.data
    none = {
        name: replace(utterances, intents=[None] * len(utterances))
        for name, utterances in data.utterances["train"].items()
    }
    with pytest.raises(TrainingError, match="no training utterance"):
        intent_data(replace(data, utterances={**data.utterances, "train": none}))


def test_an_oversized_batch_equals_a_batch_of_all_examples():
    rows = torch.arange(7)
    whole, huge = (task(batch_size=size).draws(rows, generator(3)) for size in (7, LARGEST))
    assert whole["adversarial"].shape[0] == 7
    assert all(torch.equal(whole[name], huge[name]) for name in whole)


def test_label_pools_draw_partners_by_label_and_need_two_labels():
    labels = torch.tensor([-1, 2, 0, 1, 1, 0, 2, 2, 4])
    pool = LabelPool(torch.arange(1, 9), labels)
    rows = torch.arange(1, 9).repeat(2000)
    same, different = pool.same(rows, generator(0)), pool.different(rows, generator(1))
    assert torch.equal(labels[same], labels[rows])
    assert torch.equal(same == rows, rows == 8)  # the only one of its label
    assert (labels[different] != labels[rows]).all()
    for row in (1, 3, 8):
        others = torch.bincount(different[rows == row], minlength=9)[1:]
        possible = others[labels[1:] != labels[row]].double()
        assert (possible / possible.sum() - 1 / len(possible)).abs().max() < 0.05
    with pytest.raises(TrainingError, match="the same intent"):
        LabelPool(torch.arange(3), torch.zeros(3, dtype=torch.long))


def test_siamese_partners_are_of_both_kinds_and_n_pair_has_one_positive_and_four_negatives():
    pairs = task(ContrastiveConfig(tune="head", batch_size=5), ContrastiveTask)
    same = torch.cat(
        [pairs.labels(b["rows"]) == pairs.labels(b["partners"]) for e in range(4) for b in pairs.batches(e)]
    )
    assert 0.2 < same.double().mean() < 0.8
    emu = task(NPairConfig(tune="head", batch_size=5), NPairTask)
    for batch in emu.batches(0):
        labels = emu.labels(batch["rows"])
        assert torch.equal(emu.labels(batch["positives"]), labels)
        assert (batch["positives"] != batch["rows"]).all()
        assert batch["negatives"].shape == (len(labels), 4)
        assert (emu.data.labels[batch["negatives"]] != labels.unsqueeze(1)).all()


def test_the_dev_accuracy_skips_the_translation():
    vectors = [torch.eye(3), torch.eye(3) + 0.01]
    labels = [torch.tensor([0, 1, 2])] * 2
    assert intent_accuracy(vectors, labels) == 0
    near = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    assert intent_accuracy([near, near], [torch.tensor([0, 0, 1, 1])] * 2) == 1
    assert intent_accuracy([near], [torch.tensor([0, 0, 1, 0])]) == 0.5

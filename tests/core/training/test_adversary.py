"""Alternating updates: the adversary first, on its loss alone, then the rest against the adversary that it became."""

import pytest
import torch
from synthetic import DIM, world
from test_stacked import stack

from disent_core.methods.dream import MeatConfig
from disent_core.methods.dream_head import MeatHead
from disent_core.training import stacked as training
from disent_core.training.epoch import Fit
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import fit

ADVERSARY = {"discriminator.weight", "discriminator.bias"}
MAPS = {"meaning.weight", "meaning.bias", "language.weight", "language.bias"}


def config(**changes):
    return MeatConfig(
        **{"learning_rate": 0.02, "batch_size": 5, "max_epochs": 3, "patience": 9, "checkpoint_seconds": 0.0} | changes
    )


def run(path, settings, seeds=(0, 1)):
    sampler = PairSampler(world().data)
    return fit(lambda: MeatHead(DIM, 2, settings), sampler, settings, Fit(seeds, path, "run"))


@pytest.mark.parametrize("rate", [None, 0.3])
@pytest.mark.parametrize("mode", ["uniform_ce", "negative_ce"])
def test_training_equals_two_optimisers_of_torch_that_take_turns(tmp_path, mode, rate):
    settings = config(adversarial=mode, adversary_learning_rate=rate)
    list(run(tmp_path / "run", settings, (7,)))
    torch.manual_seed(7)
    head = MeatHead(DIM, 2, settings)
    adversary_adam = torch.optim.Adam(head.discriminator.parameters(), lr=rate or settings.learning_rate)
    maps = torch.optim.Adam([*head.meaning.parameters(), *head.language.parameters()], lr=settings.learning_rate)
    plan = PairSampler(world().data).plan("dev", 0.1, 42, "cpu")
    for epoch in range(settings.max_epochs):
        for _, stacked in plan.training_batches([7], epoch, settings.batch_size):
            batch = {name: value[0] for name, value in stacked.items()}
            for optimiser, loss in ((adversary_adam, adversary_loss), (maps, total)):
                head.zero_grad()
                loss(head, batch).backward()
                optimiser.step()
    for name, value in stack(tmp_path / "run", "now.").items():
        assert torch.allclose(value[0], head.get_parameter(name), atol=1e-6), name


def adversary_loss(head, batch):
    return sum(head.adversary_terms(head.encode(batch)).values())


def total(head, batch):
    return sum(head(batch).values())


def test_each_of_the_two_updates_touches_its_own_parameters_only(tmp_path, monkeypatch):
    updates = []
    update = training.TrainingState.update

    def watched(state, gradients, **settings):
        before = {name: value.clone() for name, value in state.parameters.items()}
        update(state, gradients, **settings)
        changed = {name for name, value in state.parameters.items() if not torch.equal(value, before[name])}
        assert changed == gradients.keys()
        updates.append(changed)

    monkeypatch.setattr(training.TrainingState, "update", watched)
    list(run(tmp_path / "run", config(max_epochs=1)))
    assert updates == [ADVERSARY, MAPS] * 3


def test_reversal_updates_everything_at_once(tmp_path, monkeypatch):
    updates = []
    monkeypatch.setattr(training.TrainingState, "update", lambda state, found, **_: updates.append(found.keys()))
    list(run(tmp_path / "run", config(max_epochs=1, adversarial="grad_reversal")))
    assert updates == [ADVERSARY | MAPS] * 3


def test_stacked_seeds_equal_separate_runs(tmp_path):
    list(run(tmp_path / "together", config(), (3, 4)))
    for index, seed in enumerate((3, 4)):
        list(run(tmp_path / str(seed), config(), (seed,)))
        together = stack(tmp_path / "together", "now.")
        for name, value in stack(tmp_path / str(seed), "now.").items():
            assert torch.allclose(value[0], together[name][index], atol=1e-5), name


def test_the_adversarys_loss_is_logged_but_no_part_of_the_total(tmp_path):
    for terms in next(run(tmp_path / "run", config())).terms.values():
        names = set(terms) - {"total", "discriminator"}
        assert names == {"reconstruction", "cross_reconstruction", "language_repulsion", "adversarial"}
        assert terms["total"] == pytest.approx([sum(values) for values in zip(*(terms[n] for n in names), strict=True)])


@pytest.mark.parametrize("monitor", ["loss", "loss_without_adversarial"])
def test_the_best_epoch_is_that_of_the_monitored_loss(tmp_path, monitor):
    settings = config(monitor=monitor, learning_rate=0.2, max_epochs=12, patience=99, weights={"adversarial": 3.0})
    epochs = list(run(tmp_path / "run", settings, (0,)))
    dev = [epoch.terms["dev"] for epoch in epochs]
    scores = {
        "loss": [terms["total"][0] for terms in dev],
        "loss_without_adversarial": [terms["total"][0] - 3 * terms["adversarial"][0] for terms in dev],
    }
    lowest = {name: values.index(min(values)) for name, values in scores.items()}
    assert lowest["loss"] != lowest["loss_without_adversarial"], "for this test to say something"
    assert max(number for number, epoch in enumerate(epochs) if epoch.is_best[0]) == lowest[monitor]

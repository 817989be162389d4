"""The resumable loop: the same steps whether cut off or not, and torch's own optimisers and schedule."""

import logging
import math
import re
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from disent_core.errors import TrainingError
from disent_core.optimisation import optimiser as row_adam
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import RowAdam, RowOptimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import ExamplesTask, TrainingRun, train
from disent_core.progress import Progress

ADAM = OptimiserConfig(
    learning_rate=0.05, weight_decay=0.1, decay="decoupled_matrices", warmup=0.3, schedule="linear", clip=1.0
)
EXAMPLES = 10


class Regression:
    def __init__(self, steps=None):
        torch.manual_seed(7)
        self.network = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        inputs = torch.randn(EXAMPLES, 4, generator=generator(1, "test"))
        self.inputs, self.targets, self.steps = inputs[:, :3], inputs[:, 3], steps

    def loss(self, rows):
        if self.steps == 0:
            raise KeyboardInterrupt
        self.steps = None if self.steps is None else self.steps - 1
        return (self.network(self.inputs[rows]).squeeze(1) - self.targets[rows]).square()

    def train(self, checkpoint, adam=ADAM, *, is_summed=False, epochs=5, examples=EXAMPLES, **changed):
        args = {"stage": "toy", "identity": "one", "seed": 0, "epochs": epochs, "checkpoint_seconds": 0.0} | changed
        run = TrainingRun(**args, checkpoint=checkpoint)
        task = ExamplesTask(self.network, self.loss, examples, adam, batch_size=4, run=run, is_summed=is_summed)
        return list(train(task, run))

    def weights(self):
        return torch.cat([value.flatten() for value in self.network.state_dict().values()])


def test_a_finished_run_is_loaded_and_computes_nothing(tmp_path):
    first, second = Regression(), Regression(steps=0)
    first.train(tmp_path / "run")
    epochs = second.train(tmp_path / "run")
    assert torch.equal(first.weights(), second.weights())
    assert [report.is_replayed for report in epochs] == [True] * 5


@pytest.mark.parametrize(
    "other", [{"identity": "two"}, {"seed": 1}, {"epochs": 6}, {"stage": "other"}, {"adam": replace(ADAM, clip=2.0)}]
)
def test_a_checkpoint_of_another_run_is_not_used(tmp_path, other):
    Regression().train(tmp_path / "run")
    assert not any(report.is_replayed for report in Regression().train(tmp_path / "run", **other))


def test_a_damaged_checkpoint_is_not_used(tmp_path):
    Regression().train(tmp_path / "run")
    (tmp_path / "run").write_bytes((tmp_path / "run").read_bytes()[:-9])
    assert not any(report.is_replayed for report in Regression().train(tmp_path / "run"))


def test_every_step_draws_its_own_dropout(tmp_path):
    toy, drawn = Regression(), []
    toy.network[1].register_forward_hook(lambda layer, given, output: drawn.append(str((output == 0).tolist())))
    toy.train(tmp_path / "run")
    assert len(drawn) == len(set(drawn)) == 15


def test_training_does_not_change_the_global_random_state(tmp_path):
    toy = Regression()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    toy.train(tmp_path / "run")
    assert torch.equal(torch.rand(4), expected)


def test_steps_equal_adamw_with_the_schedule_of_transformers_written_out(tmp_path):
    from transformers import get_linear_schedule_with_warmup

    ours, reference = Regression(), Regression()
    for model in (ours, reference):
        model.network[1].p = 0.0
    epochs = ours.train(tmp_path / "run")
    matrices, vectors = ([p for p in reference.network.parameters() if (p.ndim > 1) is wide] for wide in (True, False))
    optimiser = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], 0.05,
                                  weight_decay=0.1)  # fmt: skip
    schedule = get_linear_schedule_with_warmup(optimiser, 5, 15)
    for epoch in range(5):
        losses = []
        for rows in torch.randperm(EXAMPLES, generator=generator(0, "toy", "epoch", epoch)).split(4):
            values = reference.loss(rows)
            optimiser.zero_grad()
            values.mean().backward()
            nn.utils.clip_grad_norm_(reference.network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses += values.tolist()
        assert epochs[epoch].terms["train"]["total"] == pytest.approx(sum(losses) / EXAMPLES)
    torch.testing.assert_close(ours.weights(), reference.weights(), atol=1e-6, rtol=1e-6)


@given(st.integers(1, 300), st.sampled_from([0.0, 0.1, 0.5, 3.0, 10_000.0]))
def test_the_schedule_is_that_of_transformers(steps, warmup):
    from transformers.optimization import _get_linear_schedule_with_warmup_lr_lambda as reference

    counted = -int(-warmup * steps // 1) if warmup < 1 else int(warmup)
    adam = replace(ADAM, warmup=warmup)
    for step in range(steps):
        expected = reference(step, num_warmup_steps=counted, num_training_steps=steps)
        assert adam.factor(step, steps) == pytest.approx(expected)


def test_the_logged_rate_excludes_the_first_step(tmp_path, monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr("disent_core.optimisation.steps.Progress", partial(Progress, clock=lambda: now[0]))
    toy = Regression()
    compute = toy.loss

    def loss(rows):
        now[0] += 10.0 if now[0] else 1000.0
        return compute(rows)

    monkeypatch.setattr(toy, "loss", loss)
    with caplog.at_level(logging.INFO, "disent_core.optimisation.steps"):
        toy.train(tmp_path / "run")
    line = r"2 of 15 steps of toy, seed 0, loss [-\d.e]+, 6\.0 a minute, 130 s left"
    assert re.fullmatch(line, caplog.messages[0])


def test_empty_training_data_and_a_non_finite_loss_are_errors(tmp_path):
    with pytest.raises(TrainingError, match="toy, seed 0: there is nothing to train on"):
        Regression().train(tmp_path / "run", examples=0)
    toy = Regression()
    toy.targets[2] = torch.inf
    with pytest.raises(TrainingError, match="toy, seed 0, step 3: the loss term 'total' is not finite"):
        toy.train(tmp_path / "run")


@pytest.mark.parametrize(("max_steps", "epochs"), [(2, 1), (3, 1), (20, 7)])
def test_a_number_of_steps_ends_training_earlier_or_later_than_its_epochs(tmp_path, max_steps, epochs):
    reports = Regression().train(tmp_path / "run", max_steps=max_steps)
    assert (len(reports), reports[-1].steps) == (epochs, max_steps)


def test_linear_from_one_never_reaches_rate_0():
    adam = replace(ADAM, schedule="linear_from_one", warmup=0.25)
    assert [adam.factor(step, 8) for step in range(8)] == [0.5, 1.0, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]


STEPS = [[1, 2, 5], [2, 3], [5, 1, 1], [2]]


def trained(make):
    table = nn.Parameter(torch.linspace(-1, 1, 18).view(6, 3).clone())
    optimiser = make(table)
    for rows in STEPS:
        optimiser.zero_grad()
        (F.embedding(torch.tensor(rows), table, sparse=True).sin().square().sum()).backward()
        optimiser.step()
    return table.detach()


@pytest.mark.parametrize("block", [2, 512])
def test_steps_equal_those_of_sparse_adam_also_where_a_row_is_read_twice(monkeypatch, block):
    monkeypatch.setattr(row_adam, "_BLOCK", block)
    expected = trained(lambda table: torch.optim.SparseAdam([table], lr=0.1))
    torch.testing.assert_close(trained(lambda table: RowAdam(table, lr=0.1)), expected)


def test_a_dense_gradient_is_refused():
    table = nn.Parameter(torch.ones(2, 2))
    table.sum().backward()
    with pytest.raises(ValueError, match="the gradient is not sparse"):
        RowAdam(table, lr=0.1).step()


def test_the_rate_falls_by_a_cosine():
    config = OptimiserConfig(learning_rate=2.0, schedule="cosine")
    optimiser = RowOptimiser(nn.Parameter(torch.ones(2, 2)), config)
    rates = []
    for step in range(5):
        optimiser.set_rate(step, 4)
        rates.append(optimiser.adam.param_groups[0]["lr"])
    assert rates == pytest.approx([1 + math.cos(math.pi * step / 4) for step in range(5)], abs=1e-9)
    assert replace(config, warmup=0.5).factor(2, 4) == 1.0

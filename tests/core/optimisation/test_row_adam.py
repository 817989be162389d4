"""Adam on the rows of a sparse gradient: the values of `torch.optim.SparseAdam`."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from disent_core.optimisation import optimiser as row_adam
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import RowAdam, RowOptimiser

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

"""Training on a device that is not the CPU: `meta` stands in for a GPU, since it has shapes and devices but no values.

Whatever reads a value there raises, where on a GPU the CPU would wait for all that it has told it to do.
"""

from dataclasses import replace

import pytest
import torch
from synthetic import world
from torch.utils._python_dispatch import TorchDispatchMode

from disent_core import methods
from disent_core.methods.families import FrozenHeadMethod
from disent_core.methods.trainer import trainer
from disent_core.training import stacked
from disent_core.training.needs import Need
from disent_core.training.sampling import PairSampler

HEADS = [name for name in methods.METHODS if isinstance(methods.method(name), FrozenHeadMethod)]


class OneDevice(TorchDispatchMode):
    """Refuses operations on tensors of two devices, as a GPU does; copies and single numbers are free."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        flat = [value for arg in args for value in (arg if isinstance(arg, list | tuple) else [arg])]
        devices = {value.device.type for value in flat if isinstance(value, torch.Tensor) and value.ndim}
        if len(devices) > 1 and "copy" not in func._schema.name:
            raise RuntimeError(f"{func} on {sorted(devices)}")
        return func(*args, **(kwargs or {}))


def sampler(method, config, data):
    return PairSampler(
        data,
        states=Need.TOKEN_STATES in method.needs,
        masked=Need.MASKED_TARGETS in method.needs,
        draws=method.draws(config) if callable(method.draws) else method.draws,
    )


def moved(state):
    stacks = ("parameters", "first_moment", "second_moment", "best")
    return replace(
        state, **{of: {name: value.to("meta") for name, value in getattr(state, of).items()} for of in stacks}
    )


@pytest.mark.parametrize("name", HEADS)
def test_steps_and_validation_neither_synchronise_nor_mix_devices(name):
    method, data, seeds = methods.method(name), world().data, [0, 1]
    for config in (method.presets[name] for name in method.presets if name not in ("converged", "hinge")):
        head, plan = trainer(method).head(data.dim, 2, config), sampler(method, config, data)
        state = moved(stacked.start(lambda: trainer(method).head(data.dim, 2, config), seeds, "cpu"))  # noqa: B023
        with OneDevice():
            on_device = plan.plan("dev", 0.25, 1, "meta")
            for _, batch in on_device.training_batches(seeds, 0, 12):
                terms = stacked._steps(head.to("meta"), state, batch, config)
            for _, batch in on_device.validation_batches(12):
                stacked._dev_terms(head, state.parameters, batch, config)
            for side in ("source", "target"):
                for text in on_device.validation_texts(side, 12):
                    stacked._monitored(head, {key: value[0] for key, value in state.parameters.items()}, text)
        assert {value.device.type for value in terms.values()} == {"meta"}


def test_lengths_that_are_known_before_give_the_same_batches():
    data = world().data
    read = PairSampler(data, states=True, draws=("negative", "second_half")).plan("dev", 0.25, 1, "cpu")
    known = replace(read, lengths=data.states.length[data.state_rows])
    for way in (
        lambda plan: plan.training_batches([3, 4], 1, 5),
        lambda plan: plan.validation_batches(5),
        lambda plan: ((0, text) for text in plan.validation_texts("target", 3)),
    ):
        for (_, first), (_, second) in zip(way(read), way(known), strict=True):
            assert first.keys() == second.keys()
            assert all(torch.equal(first[name], second[name]) for name in first)

"""Weights of encoders that were made here, and trainings of them that are killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from disent_core.optimisation import steps


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def are_equal(first: Path, second: Path) -> bool:
    left, right = weights(first), weights(second)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@contextmanager
def killed(task: type, after: int) -> Iterator[None]:
    """The training inside can save a checkpoint after each step, and is killed in the step after so many."""
    loss, taken = task.loss, count(1)

    def dies(self, batch):
        if next(taken) > after:
            raise KeyboardInterrupt
        return loss(self, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "SAVE_SHARE", float("inf"))
        patch.setattr(task, "loss", dies)
        with pytest.raises(KeyboardInterrupt):
            yield

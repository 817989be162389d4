"""Compare the weights in an untrusted file with those that the settings of a head imply."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from disent_core.storage.weights import refuse_weights

Module = TypeVar("Module", bound=nn.Module)


def require_shapes(path: Path, weights: Mapping[str, Tensor], wanted: Mapping[str, Sequence[int]]) -> None:
    """Check that every weight is present, with the shape that the settings of a head imply."""
    for name, shape in wanted.items():
        if name not in weights:
            refuse_weights(path, f"it lacks the weight {name!r}, which its settings imply")
        if (stored := tuple(weights[name].shape)) != tuple(shape):
            refuse_weights(path, f"its weight {name!r} has shape {stored}, but its settings imply {tuple(shape)}")


def filled(path: Path, build: Callable[[], Module], weights: Mapping[str, Tensor]) -> Module:
    """Build a module and load weights into it; check their shapes before the module takes any memory."""
    try:
        with torch.device("meta"):
            wanted = {name: value.shape for name, value in build().state_dict().items()}
    except RuntimeError:  # a user's module that computes while it is built
        wanted = {}
    require_shapes(path, weights, wanted)
    try:
        module = build()
        module.load_state_dict(weights)
    except RuntimeError as error:
        refuse_weights(path, f"its weights do not match its settings ({error})", error)
    return module.eval()

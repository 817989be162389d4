"""Weights of labellers as safetensors that say what they are: of one, or of one a seed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError, located
from disent_core.storage.weights import save_weights


def write_weights(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> str:
    """Write atomically; returns the fingerprint of the weights."""
    return save_weights(path, {name: value.detach().cpu() for name, value in tensors.items()}, description)


def read_weights(path: Path, seed: int | None = None, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and description; of one seed, from a file that `merge_weights` wrote.

    Raises:
        TrainingError: if there is no such file, or it has no such seed.
    """
    if not path.is_file():
        raise TrainingError(located(path, None, "there are no weights here", "Train first"))
    prefix = "" if seed is None else f"{seed}."
    with safe_open(path, framework="pt", device=device) as file:
        description = json.loads(file.metadata()["disent"])
        if seed is not None and str(seed) not in description["of_seed"]:
            remedy = f"Choose one of {sorted(description['of_seed'])}"
            raise TrainingError(located(path, None, f"there are no weights of seed {seed}", remedy))
        tensors = {key.removeprefix(prefix): file.get_tensor(key) for key in file.keys() if key.startswith(prefix)}
    return tensors, description if seed is None else description["of_seed"][str(seed)]


def describe_weights(path: Path) -> dict[str, Any]:
    """What a file of weights says that it is, without reading them."""
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["disent"])


def merge_weights(by_seed: Mapping[int, Path], path: Path, description: Mapping[str, Any]) -> str:
    """One file with the weights of all seeds; each seed's own description is its `of_seed`."""
    tensors: dict[str, Tensor] = {}
    own: dict[str, Any] = {}
    for seed, part in by_seed.items():
        weights, own[str(seed)] = read_weights(part)
        tensors |= {f"{seed}.{name}": value for name, value in weights.items()}
    return write_weights(path, tensors, {**description, "of_seed": own})


def check_encoder(path: Path, description: Mapping[str, Any], files: EncoderFiles) -> None:
    """Refuse an encoder that the weights do not belong to: they would fit, and mean nothing.

    Raises:
        TrainingError: if they were trained from another one.
    """
    if (own := description["encoder_fingerprint"]) != files.fingerprint:
        found = f"these weights were tuned from encoder {own[:12]}, not {files.fingerprint[:12]}"
        raise TrainingError(located(path, None, found, "Give the encoder that they were trained with"))

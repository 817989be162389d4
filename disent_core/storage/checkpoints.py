"""What a training that was cut off goes on from: tensors and plain values, sealed, in safetensors."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from disent_core.storage.checksums import checksummed_path, verified


def write_checkpoint(path: Path, run: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint atomically.

    Args:
        path: where it lies.
        run: fingerprint of all that the training depends on.
        state: plain values, which JSON can hold.
        tensors: on any device.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with checksummed_path(path) as beside:
        save_file(plain, beside, metadata={"run": run, "state": json.dumps(state)})


def read_checkpoint(path: Path, run: str, device: str = "cpu") -> tuple[Any, dict[str, Tensor]] | None:
    """State and tensors as `write_checkpoint` got them; None where there are none of this run, or they are damaged."""
    if verified(path) is None:
        return None
    with safe_open(path, framework="pt", device=device) as file:
        told = file.metadata()
        if told["run"] != run:
            return None
        return json.loads(told["state"]), {key: file.get_tensor(key) for key in file.keys()}

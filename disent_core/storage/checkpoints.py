"""Write and read training checkpoints: tensors and plain values in safetensors, with checksums."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from disent_core.storage.files import recorded_path
from disent_core.storage.remote import remote_of
from disent_core.storage.results import open_result, write_result


def write_checkpoint(path: Path, run: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint atomically; of a home in a bucket, one a minute is published for other machines.

    Args:
        path: of the checkpoint.
        run: fingerprint of everything that the training depends on.
        state: plain values, which JSON can hold.
        tensors: on any device.
    """
    home = remote_of(path)
    write = recorded_path if home is not None and not home.is_due(path) else write_result
    detached = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with write(path) as temporary:
        save_file(detached, temporary, metadata={"run": run, "state": json.dumps(state)})


def read_checkpoint(path: Path, run: str, device: str = "cpu") -> tuple[Any, dict[str, Tensor]] | None:
    """Return state and tensors as written; None if there is no checkpoint of this run, or it is damaged."""
    if open_result(path) is None:
        return None
    with safe_open(path, framework="pt", device=device) as file:
        metadata = file.metadata()
        if metadata["run"] != run:
            return None
        return json.loads(metadata["state"]), {key: file.get_tensor(key) for key in file.keys()}

"""Write and read training checkpoints: tensors and plain values in safetensors, with checksums."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from disent_core.storage.checksums import checksummed_path, verified
from disent_core.storage.manifests import recorded_path

PUBLISHED_SECONDS = 60.0
_PUBLISHED: dict[Path, float] = {}
"""When a checkpoint was published last, by this process."""


def write_checkpoint(path: Path, run: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint atomically; of a home in a bucket, one a minute is published for other machines.

    Args:
        path: of the checkpoint.
        run: fingerprint of everything that the training depends on.
        state: plain values, which JSON can hold.
        tensors: on any device.
    """
    detached = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with (checksummed_path if _is_due(path) else recorded_path)(path) as temporary:
        save_file(detached, temporary, metadata={"run": run, "state": json.dumps(state)})


def _is_due(path: Path) -> bool:
    now = time.monotonic()
    is_due = now - _PUBLISHED.get(path, -PUBLISHED_SECONDS) >= PUBLISHED_SECONDS
    if is_due:
        _PUBLISHED[path] = now
    return is_due


def read_checkpoint(path: Path, run: str, device: str = "cpu") -> tuple[Any, dict[str, Tensor]] | None:
    """Return state and tensors as written; None if there is no checkpoint of this run, or it is damaged."""
    if verified(path) is None:
        return None
    with safe_open(path, framework="pt", device=device) as file:
        metadata = file.metadata()
        if metadata["run"] != run:
            return None
        return json.loads(metadata["state"]), {key: file.get_tensor(key) for key in file.keys()}

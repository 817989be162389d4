"""Weights on disk: safetensors that say what they are, and whose fingerprint is that of their values."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from disent_core.storage.files import sealed_path


def save_weights(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, object]) -> str:
    """Write tensors with what they are, atomically; returns the fingerprint of names and values."""
    digest = hashlib.sha256()
    for name, value in tensors.items():
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    content = digest.hexdigest()[:32]
    with sealed_path(path) as beside:
        save_file(dict(tensors), beside, metadata={"disent": json.dumps(description), "content": content})
    return content

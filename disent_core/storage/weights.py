"""Write and read weights and training checkpoints as safetensors with a description and checksums.

A file may hold the weights of several seeds: `SEED.NAME` is the weight NAME of that seed. An `INDEX` may replace the
file: JSON with `description`, `fingerprint` and `weights`, which names the file of each weight.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from safetensors import SafetensorError, safe_open

from disent_core.errors import DamagedError, TrainingError, commas, located
from disent_core.storage.files import manifest_path, recorded_path
from disent_core.storage.remote import remote_of
from disent_core.storage.results import open_result, write_result
from disent_core.text import parsed_json

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

Weights = dict[str, "Tensor"]
_CHECKSUM = "checksum"
INDEX = "disent_head.json"  # name of an index, in the folder of an exported head


def save_weights(path: Path, tensors: Mapping[str, "Tensor"], description: Mapping[str, object]) -> str:
    """Write tensors and their description atomically; return the fingerprint of names and values."""
    from safetensors.torch import save_file

    detached = _detached(tensors)
    digest = hashlib.sha256()
    for name, value in detached.items():
        digest.update(name.encode() + value.numpy().tobytes())
    content, described = digest.hexdigest()[:32], json.dumps(description)
    arrays = ((name, detached[name].numpy()) for name in sorted(detached))
    metadata = {"disent": described, "content": content, _CHECKSUM: _checksum(described, content, arrays)}
    with write_result(path) as temporary:
        save_file(detached, temporary, metadata=metadata)
    return content


def _checksum(described: str, content: str, arrays: Iterable[tuple[str, "np.ndarray"]]) -> str:
    """Return the SHA-256 of everything in a weights file, which checks a copy without a manifest."""
    digest = hashlib.sha256(f"{described}{content}".encode())
    for name, value in arrays:
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode() + value.tobytes())
    return digest.hexdigest()


def describe_copy(path: Path) -> tuple[dict[str, Any], str] | None:
    """Like `describe_weights`, for a file without a manifest, which is checked; None if it is not a head."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if not {"disent", "content"} <= set(metadata):
                return None
            arrays = ((name, file.get_tensor(name)) for name in sorted(file.keys()))
            checksum = _checksum(metadata["disent"], metadata["content"], arrays)
    except (OSError, SafetensorError, TypeError):  # TypeError: numbers that numpy lacks
        return None
    if _CHECKSUM not in metadata:
        problem = f"this head has no checksum of its weights, and {manifest_path(path).name} is missing"
        raise DamagedError(located(path, None, problem, "Copy that file too, or train the head again"))
    if checksum != metadata[_CHECKSUM]:
        refuse_weights(path, "it is not as it was written: its checksum differs")
    return describe_weights(path)


def describe_weights(path: Path) -> tuple[dict[str, Any], str]:
    """Return the description of a file's weights and their fingerprint, without reading the weights."""
    if path.name == INDEX:
        index = _index(path)
        return index["description"], index["fingerprint"]
    with _opened(path, "np") as file:
        metadata = file.metadata() or {}
    try:
        description = parsed_json(metadata["disent"])
        if not isinstance(description, dict):
            raise ValueError("its description is not a JSON object")
        return description, metadata["content"]
    except (KeyError, ValueError) as error:
        refuse_weights(path, f"this is not the file of a head: {error}", error)


@contextmanager
def _opened(path: Path, framework: Literal["np", "pt"], device: str = "cpu") -> Iterator[Any]:
    """Open a safetensors file, checking that its header is bounded and fits its bytes."""
    try:
        with safe_open(path, framework=framework, device=device) as file:
            yield file
    except SafetensorError as error:
        refuse_weights(path, f"its weights can't be read ({error})", error)


def refuse_weights(path: Path, problem: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error for weights that are not a head's."""
    raise DamagedError(located(path, None, problem, "Copy it again, or train the head again")) from cause


def read_weights(path: Path, seed: int | None = None, device: str = "cpu") -> tuple[Weights, dict[str, Any]]:
    """Return the weights and description of a file, or of one seed, with its `of_seed` merged into the description."""
    if not path.is_file():
        raise TrainingError(located(path, None, "no weights at this path", "Train the head first"))
    description, _ = describe_weights(path)
    prefix = "" if seed is None else f"{seed}."
    if seed is not None:
        if seed not in description["seeds"]:
            remedy = f"Choose one of {commas(sorted(description['seeds']))}"
            raise TrainingError(located(path, None, f"no weights of seed {seed}", remedy))
        description |= description.get("of_seed", {}).get(str(seed), {})
    read = _indexed if path.name == INDEX else _stored
    return {key.removeprefix(prefix): value for key, value in read(path, prefix, device)}, description


def _stored(path: Path, prefix: str, device: str) -> Iterator[tuple[str, "Tensor"]]:
    with _opened(path, "pt", device) as file:
        yield from ((key, file.get_tensor(key)) for key in file.keys() if key.startswith(prefix))


def _indexed(path: Path, prefix: str, device: str) -> Iterator[tuple[str, "Tensor"]]:
    import torch

    entries = [(entry["file"], key, entry) for key, entry in _index(path)["weights"].items() if key.startswith(prefix)]
    for name, of_file in groupby(sorted(entries, key=itemgetter(0)), key=itemgetter(0)):
        with _opened(path.parent / name, "pt", device) as file:
            for _, key, entry in of_file:
                yield key, file.get_tensor(entry["name"]).to(getattr(torch, entry["dtype"]))


def _index(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def merge_weights(by_seed: Mapping[int, Path], path: Path, description: Mapping[str, Any]) -> str:
    """Write the weights of all seeds to one file, with each seed's description in `of_seed`; return the fingerprint."""
    tensors: Weights = {}
    of_seed: dict[int, Any] = {}
    for seed, part in by_seed.items():
        weights, of_seed[seed] = read_weights(part)
        tensors |= {f"{seed}.{name}": value for name, value in weights.items()}
    return save_weights(path, tensors, {**description, "seeds": list(by_seed), "of_seed": of_seed})


def _detached(tensors: Mapping[str, "Tensor"]) -> Weights:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def write_checkpoint(path: Path, run: str, state: Mapping[str, Any], tensors: Mapping[str, "Tensor"]) -> None:
    """Write a checkpoint atomically; in a bucket home, publish it for other machines, at most once a minute.

    `run` is the fingerprint of everything that the training depends on, and `state` has values that JSON can hold.
    """
    from safetensors.torch import save_file

    home = remote_of(path)
    write = recorded_path if home is not None and not home.is_due(path) else write_result
    with write(path) as temporary:
        save_file(_detached(tensors), temporary, metadata={"run": run, "state": json.dumps(state)})


def read_checkpoint(path: Path, run: str, device: str = "cpu") -> tuple[Any, Weights] | None:
    """Return state and tensors as written; None if there is no checkpoint of this run, or it is damaged."""
    if open_result(path) is None:
        return None
    with safe_open(path, framework="pt", device=device) as file:
        metadata = file.metadata()
        if metadata["run"] != run:
            return None
        return json.loads(metadata["state"]), {key: file.get_tensor(key) for key in file.keys()}


def require_shapes(path: Path, weights: Mapping[str, "Tensor"], wanted: Mapping[str, Sequence[int]]) -> None:
    """Check that every weight is present, with the shape that the settings of a head imply."""
    for name, shape in wanted.items():
        if name not in weights:
            refuse_weights(path, f"it lacks the weight {name!r}, which its settings imply")
        if (stored := tuple(weights[name].shape)) != tuple(shape):
            refuse_weights(path, f"its weight {name!r} has shape {stored}, but its settings imply {tuple(shape)}")

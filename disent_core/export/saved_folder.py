"""Write and check the record of an exported folder, and open the folder as the head that it was exported from.

The folder has the head's weights where sentence-transformers reads them, or in `REST`, and its record tells where. So
the head itself can be rebuilt, with vectors equal to the bit; no code in the folder is run.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from disent_core.encoders import LazyEncoder
from disent_core.encoders.contract import Device, EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import DamagedError, TrainingError, located
from disent_core.lineage.head_records import (
    check_folder_record,
    encoder_inside,
    is_there,
    method_of,
    read_folder_record,
    require_inside,
)
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.families.seed_by_seed import FineTuned
from disent_core.methods.families.tagger import TrainedTaggers
from disent_core.storage.results import sha256_of
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import INDEX as RECORD
from disent_core.storage.weights import read_weights

CARD = "README.md"  # the model card, the only file that may change after the export
REST = "disent_head.safetensors"  # weights of the head that no module of sentence-transformers has unchanged
_CHECKSUM = "checksum"
_READ = ("*.json", "*.safetensors", "*.txt", "*.model", "*.py")
"""Files that transformers or sentence-transformers may read from a folder, even if the export did not write them."""


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record with the checksums of all files in the folder, and of itself."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    full = {**record, "files": {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}}
    write_json(folder / RECORD, full | {_CHECKSUM: checksum(full)})


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of an exported folder: its head, and its files as they were written."""
    try:
        record = read_folder_record(folder / RECORD)
        is_intact = record.get(_CHECKSUM) == checksum(record)
    except (OSError, ValueError, RecursionError) as error:
        problem = f"this is not the folder of an exported head: it has no readable {RECORD}"
        raise TrainingError(located(folder, None, problem, "Make one with disent export HEAD FOLDER")) from error
    if not is_intact:
        raise _changed(folder / RECORD, "it has changed since the export, or an earlier version of disent wrote it")
    check_folder_record(folder / RECORD, record)
    return record


def checked_record(folder: Path) -> dict[str, Any]:
    """Read the record, after checking that every file is as it was written."""
    record = read_record(folder)
    require_inside(folder)
    for name, wanted in record["files"].items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise _changed(folder / RECORD, f"it names a file outside the folder, {name!r}")
        file = folder / name
        if not (is_there(file) and file.is_file()):
            raise _changed(file, "it is missing")
        if sha256_of(file) != wanted:
            raise _changed(file, "it has changed since the export")
    names = {file.name for pattern in _READ for file in folder.glob(pattern)}
    if added := sorted(names - set(record["files"]) - {RECORD}):
        raise _changed(folder / added[0], "it was added after the export")
    if not {entry["file"] for entry in record["weights"].values()} <= set(record["files"]):
        raise _changed(folder / RECORD, "it names weights in files that it does not list")
    return record


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def checksum(record: Mapping[str, Any]) -> str:
    """Return the checksum of a record, which becomes its last value."""
    return fingerprint({name: value for name, value in record.items() if name != _CHECKSUM})


def _changed(file: Path, problem: str) -> DamagedError:
    return DamagedError(located(file, None, problem, "Copy the folder again, or export the head again"))


@dataclass(frozen=True)
class CopiedEncoder(LazyEncoder):
    """The encoder in an exported folder with checked files, which goes by the original's fingerprint."""

    original: str = ""

    @property
    def fingerprint(self) -> str:
        return self.original

    @property
    def files(self) -> EncoderFiles:
        """Return the files as the original's, so that weights tuned from it fit this copy."""
        return replace(super().files, fingerprint=self.original)


def open_folder(folder: Path, *, device: Device = "auto", allowed: Collection[str] = ()) -> SavedHead:
    """Open the head in an exported folder; `allowed` are the user's modules that its record may name."""
    path, record = folder / RECORD, checked_record(folder)
    description = record["description"]
    method, settings = method_of(path, description, allowed)
    if method.reads_encoder:
        config = encoder_inside(path, record["encoder"])
    else:  # nothing of it is read
        config = HuggingFaceConfig(name=description["encoder"], path=str(folder))
    source = CopiedEncoder(config, folder, device, description["encoder_fingerprint"])
    return SavedHead(path, description, record["fingerprint"], method, settings, source, resolve_device(device))


def index_weights(folder: Path, head: SavedHead, seed: int | None) -> dict[str, dict[str, str]]:
    """Return the file of a folder that has each weight of a head; write weights that no file has to `REST`."""
    stored: dict[torch.Size, list[tuple[str, str, Tensor]]] = {}
    for file in sorted(folder.rglob("*.safetensors")):
        for name, value in load_file(file).items():
            stored.setdefault(value.shape, []).append((file.relative_to(folder).as_posix(), name, value))
    index, rest = {}, {}
    prefix = "" if seed is None else f"{seed}."
    for name, value in _weights(head, seed).items():
        equal = (
            (file, key) for file, key, other in stored.get(value.shape, ()) if torch.equal(other.to(value.dtype), value)
        )
        file, key = next(equal, (REST, name))
        if file == REST:
            rest[name] = value
        index[f"{prefix}{name}"] = {"file": file, "name": key, "dtype": str(value.dtype).removeprefix("torch.")}
    if rest:
        save_file(rest, folder / REST)
    return index


def _weights(head: SavedHead, seed: int | None) -> Mapping[str, Tensor]:
    """Return the weights of a seed, without the blocks of a tuned encoder that the export has cut off."""
    weights, trained = read_weights(head.path, seed)[0], head.trained
    if isinstance(trained, TrainedTaggers):
        kept = trained.tagger(seed).state_dict()
    elif isinstance(trained, FineTuned) and isinstance(trained.source, TunableEncoder):
        kept = dict(trained.source.named_parameters())
    else:
        return weights
    return {name: value for name, value in weights.items() if name in kept}

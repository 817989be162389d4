"""The record of an exported folder: what head it is, and what its files were when it was written."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from disent_core.errors import DamagedError, TrainingError, located
from disent_core.storage.results import sha256_of
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import INDEX as RECORD

CARD = "README.md"
"""The model card, the only file that may change after the export."""
_CHECKSUM = "checksum"
_READ = ("*.json", "*.safetensors", "*.txt", "*.model", "*.py")
"""Files that transformers or sentence-transformers may read from a folder, also if the export did not write them."""
_REMEDY = "Copy the folder again, or export the head again"


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record with the checksums of all files that are there, and of itself."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    full = {**record, "files": {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}}
    write_json(folder / RECORD, full | {_CHECKSUM: checksum(full)})


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of an exported folder."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        is_intact = record.get(_CHECKSUM) == checksum(record)
    except (OSError, ValueError, AttributeError) as error:
        problem = f"this is no folder of an exported head: it has no readable {RECORD}"
        raise TrainingError(located(folder, None, problem, "Make one with disent export HEAD FOLDER")) from error
    if not is_intact:
        raise _changed(folder / RECORD, "it has changed since the export, or an earlier version of disent wrote it")
    return record


def checked_record(folder: Path) -> dict[str, Any]:
    """`read_record`, if every file is as it was when the folder was written."""
    record = read_record(folder)
    for name, wanted in record["files"].items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise _changed(folder / RECORD, f"it names a file outside the folder, {name!r}")
        file = folder / name
        if not file.is_file():
            raise _changed(file, "it is missing")
        if sha256_of(file) != wanted:
            raise _changed(file, "it has changed since the export")
    names = {file.name for pattern in _READ for file in folder.glob(pattern)}
    if added := sorted(names - set(record["files"]) - {RECORD}):
        raise _changed(folder / added[0], "it was added after the export")
    if not {place["file"] for place in record["weights"].values()} <= set(record["files"]):
        raise _changed(folder / RECORD, "it names weights in files that it does not list")
    return record


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def checksum(record: Mapping[str, Any]) -> str:
    """Checksum of a record, which it has as its last value."""
    return fingerprint({name: value for name, value in record.items() if name != _CHECKSUM})


def _changed(file: Path, problem: str) -> DamagedError:
    return DamagedError(located(file, None, problem, _REMEDY))

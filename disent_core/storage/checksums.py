"""Write files with checksums, verify them when they are read, and quarantine corrupt ones.

Each result has a manifest beside it (`en.parquet` has `en.parquet.manifest`) with the size and SHA-256 of the file,
facts such as the hash of its inputs, and a checksum of the manifest itself. The manifest is written before the file
is renamed, and lists the last few files of that name. So it describes whichever version of the file is there after
a kill, or while another process reads. A file that its manifest does not list is corrupt: it is renamed to
`en.parquet.damaged` and never used.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from disent_core.errors import DamagedError, located
from disent_core.storage.atomic import locked_folder, remove_path, replacing, storage_errors, write_text

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_LISTED_VERSIONS = 3
_REMEDY = "Materialise its asset to rebuild it"
_FOLDER_MANIFEST = "files.manifest"


@dataclass(frozen=True)
class ManifestEntry:
    """What a manifest records of one file: its size in bytes, its checksum, and facts about its content."""

    bytes: int
    sha256: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def manifest_path(path: Path) -> Path:
    """Path of a file's manifest."""
    return path.with_name(f"{path.name}.manifest")


# --- writing ----------------------------------------------------------------------------------------------


@contextmanager
def checksummed_path(path: Path, **facts: str | int) -> Iterator[Path]:
    """As `atomic_path`; the file gets a manifest with these facts."""

    @contextmanager
    def publishing(temporary: Path) -> Iterator[None]:
        # Without the lock, two writers would each read the old manifest and one would drop the other's file.
        with locked_folder(path.parent):
            entries = [_manifest_entry(temporary, facts), *_read_manifest(path)]
            _write_manifest(path, entries[:_LISTED_VERSIONS])
            yield

    with replacing(path, publishing) as temporary:
        yield temporary


def write_checksummed_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, with a manifest."""
    with checksummed_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_with_checksum(path: Path) -> None:
    """Remove a file and its manifest, if they exist."""
    path.unlink(missing_ok=True)
    manifest_path(path).unlink(missing_ok=True)


def write_folder_checksums(folder: Path) -> None:
    """Write a manifest of all files of a folder into it, before the folder is published."""
    text = json.dumps(_folder_checksums(folder), indent=1, sort_keys=True) + "\n"
    (folder / _FOLDER_MANIFEST).write_text(text, encoding="utf-8")


# --- hashing ----------------------------------------------------------------------------------------------


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as 64 hex digits.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the disk fails.
    """
    return _size_and_sha256(path)[1]


def _size_and_sha256(path: Path) -> tuple[int, str]:
    with storage_errors(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


# --- verifying --------------------------------------------------------------------------------------------


def verify_checksum(path: Path) -> ManifestEntry | None:
    """Verify a file and return its manifest entry; None if there is no file.

    Raises:
        DamagedError: if the file is not as it was written. It has been quarantined.
        StorageError: if the disk fails.
    """
    return _verify(path, lambda: _manifest_entry(path, {}))


def read_verified(path: Path) -> bytes | None:
    """Verify a file and return its bytes; None if there is no file.

    Raises:
        DamagedError: if the file is not as it was written. It has been quarantined.
        StorageError: if the disk fails.
    """
    content = b""

    def read() -> ManifestEntry:
        nonlocal content
        content = path.read_bytes()
        return ManifestEntry(len(content), hashlib.sha256(content).hexdigest())

    return None if _verify(path, read) is None else content


def _verify(path: Path, read_entry: Callable[[], ManifestEntry]) -> ManifestEntry | None:
    entries: list[ManifestEntry] | None = None
    # Another process may replace the file and its manifest meanwhile: try again until the manifest stays the same.
    while entries != (manifest := _read_manifest(path)):
        entries = manifest
        with storage_errors(path):
            try:
                current = read_entry()
            except FileNotFoundError:
                return None
        for entry in entries:
            if (entry.bytes, entry.sha256) == (current.bytes, current.sha256):
                return entry
    raise quarantine(path, "is not as it was written" if entries else "has no manifest")


def verified(path: Path) -> ManifestEntry | None:
    """As `verify_checksum`, but return None (and log) if the file was damaged."""
    return ignore_damaged(lambda: verify_checksum(path))


def is_verified_folder(folder: Path) -> bool:
    """Whether a folder exists and all its files are as they were written; a damaged one is quarantined and logged."""
    if not folder.is_dir():
        return False
    try:
        with storage_errors(folder / _FOLDER_MANIFEST):
            recorded = json.loads((folder / _FOLDER_MANIFEST).read_bytes())
        current = _folder_checksums(folder)
    except (FileNotFoundError, ValueError):
        recorded, current = None, {}
    if recorded != current:
        log.warning("%s", quarantine(folder, "or one below it is not as it was written"))
    return recorded == current


def ignore_damaged(read: Callable[[], Value], remedy: str = "It is rebuilt now") -> Value | None:
    """Return what `read` returns, or log and return None if the file was damaged, for callers that go on without it."""
    try:
        return read()
    except DamagedError as error:
        log.warning("%s", str(error).replace(_REMEDY, remedy))
        return None


def quarantine(path: Path, problem: str) -> DamagedError:
    """Rename a damaged file (or folder), so that nothing reads it; return the error to raise."""
    damaged = path.with_name(f"{path.name}.damaged")
    remove_path(damaged)
    path.replace(damaged)
    return DamagedError(located(path, None, f"this file {problem}", f"It was quarantined as {damaged.name}. {_REMEDY}"))


# --- manifests --------------------------------------------------------------------------------------------


def _manifest_entry(path: Path, facts: Mapping[str, str | int]) -> ManifestEntry:
    return ManifestEntry(*_size_and_sha256(path), dict(facts))


def _write_manifest(path: Path, entries: Sequence[ManifestEntry]) -> None:
    files = [asdict(entry) for entry in entries]
    manifest = {"files": files, "manifest_sha256": _checksum(files)}
    write_text(manifest_path(path), json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _read_manifest(path: Path) -> list[ManifestEntry]:
    """Entries of a file's manifest, newest first; none if the manifest is missing or damaged."""
    try:
        with storage_errors(manifest_path(path)):
            manifest = json.loads(manifest_path(path).read_bytes())
        is_intact = manifest["manifest_sha256"] == _checksum(manifest["files"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    return [ManifestEntry(**entry) for entry in manifest["files"]] if is_intact else []


def _checksum(files: object) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _folder_checksums(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != _FOLDER_MANIFEST)
    return {file.relative_to(folder).as_posix(): asdict(_manifest_entry(file, {})) for file in files}

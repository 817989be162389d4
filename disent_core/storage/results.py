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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from disent_core.errors import DamagedError, located
from disent_core.storage.atomic import remove_path, replacing, storage_errors
from disent_core.storage.manifests import (
    FOLDER_MANIFEST,
    ManifestEntry,
    entry_of,
    manifest_path,
    read_manifest,
    recording,
)
from disent_core.storage.remote import REMEDY, remote_of, replacing_folder

log = logging.getLogger(__name__)

Value = TypeVar("Value")


# --- writing ----------------------------------------------------------------------------------------------


@contextmanager
def checksummed_path(path: Path, **facts: str | int) -> Iterator[Path]:
    """As `atomic_path`; the file gets a manifest with these facts."""

    @contextmanager
    def publishing(temporary: Path) -> Iterator[None]:
        entry = entry_of(temporary, facts)
        if (home := remote_of(path)) is not None:
            home.publish(path, temporary, entry)
        with recording(path, entry):
            yield

    with replacing(path, publishing) as temporary:
        yield temporary


def write_checksummed_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, with a manifest."""
    with checksummed_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_with_checksum(path: Path) -> None:
    """Remove a file and its manifest, if they exist."""
    if (home := remote_of(path)) is not None:
        home.remove(path)
    path.unlink(missing_ok=True)
    manifest_path(path).unlink(missing_ok=True)


def remove_all_below(folder: Path) -> None:
    """Remove a folder with the results that this machine has of it; from a bucket too."""
    for manifest in sorted(folder.rglob("*.manifest")):
        remove_with_checksum(manifest.with_suffix(""))
    remove_path(folder)


@contextmanager
def checksummed_folder(folder: Path) -> Iterator[Path]:
    """As `atomic_path`, for a folder in place of one that may be there; it gets a manifest of all its files."""

    def publish(filled: Path) -> None:
        if (home := remote_of(folder)) is not None:
            home.publish_folder(folder, filled)

    with replacing_folder(folder, publish) as beside:
        yield beside
        write_folder_checksums(beside)


def write_folder_checksums(folder: Path) -> None:
    """Write a manifest of all files of a folder into it, before the folder is published."""
    text = json.dumps(_folder_checksums(folder), indent=1, sort_keys=True) + "\n"
    (folder / FOLDER_MANIFEST).write_text(text, encoding="utf-8")


# --- hashing ----------------------------------------------------------------------------------------------


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as 64 hex digits.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the disk fails.
    """
    return entry_of(path, {}).sha256


# --- what there is: the same of a home in a bucket, whose results may not be on this machine yet ----------


def is_stored(path: Path) -> bool:
    """Whether there is such a result, a file or a folder."""
    home = remote_of(path)
    return path.exists() if home is None else home.entry(path) is not None


def stored_in(folder: Path, pattern: str) -> list[Path]:
    """Results in a folder whose names match the pattern, sorted."""
    home = remote_of(folder)
    if home is None:
        return sorted(folder.glob(pattern))
    return [folder / name for name in home.names(folder) if fnmatchcase(name, pattern)]


def brought(path: Path) -> Path:
    """The path of a result, after its newest version was brought to this machine; nothing is there if there is none.

    Raises:
        DamagedError: if it is damaged in the bucket.
        StorageError: if the store or the disk fails.
    """
    if (home := remote_of(path)) is not None:
        home.bring(path)
    return path


def recorded(path: Path) -> ManifestEntry | None:
    """As `verify_checksum`; but a file that is in a bucket is not fetched: it is verified when somebody reads it."""
    home = remote_of(path)
    return verify_checksum(path) if home is None else home.entry(path)


# --- verifying --------------------------------------------------------------------------------------------


def verify_checksum(path: Path) -> ManifestEntry | None:
    """Verify a file and return its manifest entry; None if there is no file.

    Raises:
        DamagedError: if the file is not as it was written. It has been quarantined.
        StorageError: if the disk fails.
    """
    return _verify(path, lambda: entry_of(path, {}))


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
    home = remote_of(path)
    if home is None:
        return _verify_here(path, read_entry)
    if home.bring(path) is None:
        return None
    try:
        if (entry := _verify_here(path, read_entry)) is not None:
            return entry  # else it was removed since, to make room
    except DamagedError as error:
        log.warning("%s", str(error).replace(REMEDY, "It is fetched again"))
    return home.bring(path) and _verify_here(path, read_entry)


def _verify_here(path: Path, read_entry: Callable[[], ManifestEntry]) -> ManifestEntry | None:
    entries: list[ManifestEntry] | None = None
    # Another process may replace the file and its manifest meanwhile: try again until the manifest stays the same.
    while entries != (manifest := read_manifest(path)):
        entries = manifest
        with storage_errors(path):
            try:
                current = read_entry()
            except FileNotFoundError:
                return None
        for entry in entries:
            if entry.is_of(current):
                return entry
    raise quarantine(path, "is not as it was written" if entries else "has no manifest")


def verified(path: Path) -> ManifestEntry | None:
    """As `verify_checksum`, but return None (and log) if the file was damaged."""
    return ignore_damaged(lambda: verify_checksum(path))


def is_verified_folder(folder: Path) -> bool:
    """Whether a folder exists and all its files are as they were written; a damaged one is quarantined and logged."""
    home = remote_of(folder)
    if home is None:
        return _is_verified_here(folder)
    is_there = home.bring(folder) is not None
    return is_there and (_is_verified_here(folder) or home.bring(folder) is not None)


def _is_verified_here(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    try:
        with storage_errors(folder / FOLDER_MANIFEST):
            recorded = json.loads((folder / FOLDER_MANIFEST).read_bytes())
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
        log.warning("%s", str(error).replace(REMEDY, remedy))
        return None


def quarantine(path: Path, problem: str) -> DamagedError:
    """Rename a damaged file (or folder), so that nothing reads it; return the error to raise."""
    damaged = path.with_name(f"{path.name}.damaged")
    remove_path(damaged)
    path.replace(damaged)
    return DamagedError(located(path, None, f"this file {problem}", f"It was quarantined as {damaged.name}. {REMEDY}"))


def _folder_checksums(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != FOLDER_MANIFEST)
    return {file.relative_to(folder).as_posix(): asdict(entry_of(file, {})) for file in files}

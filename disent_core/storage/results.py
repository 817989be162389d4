"""Write, find, verify and remove results: the only access to a home's files, on this machine or in a bucket.

Each result has a manifest beside it (`en.parquet` has `en.parquet.manifest`) with the size and SHA-256 of the file,
facts such as the hash of its inputs, and a checksum of the manifest itself. The manifest is written before the file is
renamed, and lists the last few files of that name. So it covers whichever version of the file exists after a kill, or
while another process reads. A file that its manifest does not list is corrupt: it is renamed to `en.parquet.damaged`
and never used.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from disent_core.errors import DamagedError, located
from disent_core.storage.files import (
    FOLDER_MANIFEST,
    REMEDY,
    ManifestEntry,
    atomic_path,
    entry_of,
    locked,
    manifest_path,
    read_manifest,
    recording,
    remove_path,
    replacing_folder,
    storage_errors,
)
from disent_core.storage.remote import AT_ONCE, DAMAGED, remote_of

log = logging.getLogger(__name__)

Value = TypeVar("Value")


# --- write and remove -------------------------------------------------------------------------------------


@contextmanager
def sole_maker(path: Path) -> Iterator[None]:
    """Let one process at a time make a result: others wait, also on other machines if the home is in a bucket.

    If the first is killed, the second continues at once on the same machine, and after a minute on another.
    """
    home = remote_of(path)
    with locked(path), nullcontext() if home is None else home.leased(path):
        yield


@contextmanager
def write_result(path: Path, **facts: str | int) -> Iterator[Path]:
    """Like `atomic_path`, and write a manifest with these facts."""

    @contextmanager
    def publishing(temporary: Path) -> Iterator[None]:
        entry = entry_of(temporary, facts)
        if (home := remote_of(path)) is not None:
            home.publish(path, temporary, entry)
        with recording(path, entry):
            yield

    with atomic_path(path, publishing) as temporary:
        yield temporary


def write_text_result(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, with a manifest."""
    with write_result(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """Like `atomic_path`, for a folder that may exist already, and write a manifest of all its files."""

    def publish(filled: Path) -> None:
        if (home := remote_of(folder)) is not None:
            home.publish_folder(folder, filled)

    with replacing_folder(folder, publish) as temporary:
        yield temporary
        write_folder_manifest(temporary)


def write_folder_manifest(folder: Path) -> None:
    """Write a manifest of all files of a folder into it, before the folder is published."""
    text = json.dumps(_folder_checksums(folder), indent=1, sort_keys=True) + "\n"
    (folder / FOLDER_MANIFEST).write_text(text, encoding="utf-8")


def remove_result(path: Path) -> None:
    """Remove a file and its manifest, if they exist."""
    if (home := remote_of(path)) is not None:
        home.remove(path)
    path.unlink(missing_ok=True)
    manifest_path(path).unlink(missing_ok=True)


def remove_results(folder: Path) -> None:
    """Remove a folder and, also from the bucket, those of its results that this machine has."""
    for manifest in sorted(folder.rglob("*.manifest")):
        remove_result(manifest.with_suffix(""))
    remove_path(folder)


# --- find: a home in a bucket lists results that this machine has not fetched yet -------------------------


def result_exists(path: Path) -> bool:
    """Whether the result exists, as a file or folder."""
    home = remote_of(path)
    return path.exists() if home is None else home.entry(path) is not None


def has_manifest(path: Path) -> bool:
    """Whether a fetched file was written as a result; a copy from elsewhere has no manifest."""
    return manifest_path(fetch(path)).is_file()


def list_results(folder: Path, pattern: str) -> list[Path]:
    """List the results in a folder whose names match the pattern, sorted."""
    home = remote_of(folder)
    if home is None:
        return sorted(folder.glob(pattern))
    return [folder / name for name in home.names(folder, is_deep="/" in pattern) if fnmatchcase(name, pattern)]


def fetch(path: Path) -> Path:
    """Return the path of a result after fetching its newest version; the path does not exist if the result doesn't.

    This does not verify anything: use `open_result` unless the reader verifies the file itself.
    """
    if (home := remote_of(path)) is not None:
        home.fetch(path)
    return path


def fetch_all(paths: Iterable[Path]) -> None:
    """Like `fetch`, for several results of a home in a bucket, concurrently; do nothing for a local home."""
    remote = [path for path in paths if remote_of(path) is not None]
    contexts = [copy_context() for _ in remote]  # threads inherit their caller's look
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in threads.map(lambda context, path: context.run(fetch, path), contexts, remote):
            pass


# --- verify -----------------------------------------------------------------------------------------------


def open_result(path: Path) -> Path | None:
    """Fetch and verify a result, a file or a folder; None if it does not exist or is damaged, which is logged."""
    return path if none_if_damaged(lambda: verify_result(path)) else None


def manifest_entry(path: Path) -> ManifestEntry | None:
    """Like `verify_result`, but without fetching a file in a bucket, which is verified when it is read."""
    home = remote_of(path)
    return verify_result(path) if home is None else home.entry(path)


def verify_result(path: Path) -> ManifestEntry | None:
    """Fetch and verify a result, a file or a folder, and return its manifest entry; None if it does not exist.

    Quarantine a result that is not as it was written, and raise DamagedError.
    """
    return _verify(path, lambda: entry_of(path, {}))


def read_result(path: Path) -> bytes | None:
    """Like `verify_result`, but return the bytes of a file."""
    content = b""

    def read() -> ManifestEntry:
        nonlocal content
        content = path.read_bytes()
        return ManifestEntry(len(content), hashlib.sha256(content).hexdigest())

    return None if _verify(path, read) is None else content


def none_if_damaged(read: Callable[[], Value], remedy: str = "It is rebuilt now") -> Value | None:
    """Return the result of `read`; log a damaged file and return None, for callers that can go on without it."""
    try:
        return read()
    except DamagedError as error:
        log.warning("%s", str(error).replace(REMEDY, remedy))
        return None


def quarantine(path: Path, problem: str) -> DamagedError:
    """Rename a damaged file (or folder), so that nothing reads it; return the error to raise."""
    damaged = path.with_name(f"{path.name}{DAMAGED}")
    remove_path(damaged)
    path.replace(damaged)
    return DamagedError(located(path, None, f"this file {problem}", f"It was quarantined as {damaged.name}. {REMEDY}"))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as 64 hex digits."""
    return entry_of(path, {}).sha256


def _verify(path: Path, read_entry: Callable[[], ManifestEntry]) -> ManifestEntry | None:
    home = remote_of(path)
    if home is None:
        return _verify_here(path, read_entry)
    if home.fetch(path) is None:
        return None
    try:
        if (entry := _verify_here(path, read_entry)) is not None:
            return entry  # otherwise it was evicted meanwhile
    except DamagedError as error:
        log.warning("%s", str(error).replace(REMEDY, "It is fetched again"))
    return home.fetch(path) and _verify_here(path, read_entry)


def _verify_here(path: Path, read_entry: Callable[[], ManifestEntry]) -> ManifestEntry | None:
    if path.is_dir():
        return _verify_folder(path)
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


def _verify_folder(folder: Path) -> ManifestEntry:
    manifest = folder / FOLDER_MANIFEST
    try:
        with storage_errors(manifest):
            is_sound = json.loads(manifest.read_bytes()) == _folder_checksums(folder)
    except (FileNotFoundError, ValueError):
        is_sound = False
    if not is_sound:
        raise quarantine(folder, "or one below it is not as it was written")
    return entry_of(manifest, {})


def _folder_checksums(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != FOLDER_MANIFEST)
    return {file.relative_to(folder).as_posix(): asdict(entry_of(file, {})) for file in files}

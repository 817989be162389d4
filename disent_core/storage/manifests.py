"""Manifests: small JSON texts that say what a file has to be, with a checksum of themselves."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from disent_core.storage.atomic import locked_folder, replacing, storage_errors, write_text

FOLDER_MANIFEST = "files.manifest"
"""In a folder that is published whole: lists its files."""
LISTED_VERSIONS = 3
"""Versions of a file that its manifest lists, the newest first."""


@dataclass(frozen=True)
class ManifestEntry:
    """What a manifest records of one file: its size in bytes, its checksum, and facts about its content."""

    bytes: int
    sha256: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, other: "ManifestEntry") -> bool:
        """Whether both record the same bytes."""
        return (self.bytes, self.sha256) == (other.bytes, other.sha256)


def manifest_path(path: Path) -> Path:
    """Path of a file's manifest."""
    return path.with_name(f"{path.name}.manifest")


def entry_of(path: Path, facts: Mapping[str, str | int]) -> ManifestEntry:
    """The entry of a file as it is now.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the disk fails.
    """
    with storage_errors(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ManifestEntry(file.tell(), digest, dict(facts))


def manifest_text(files: Sequence[Mapping[str, Any]]) -> str:
    """A manifest of versions of a file, the newest first."""
    return json.dumps({"files": files, "manifest_sha256": _checksum(files)}, indent=1, sort_keys=True) + "\n"


def versions_in(text: bytes) -> list[dict[str, Any]]:
    """The versions in a manifest; none if it is damaged."""
    try:
        manifest = json.loads(text)
        return manifest["files"] if manifest["manifest_sha256"] == _checksum(manifest["files"]) else []
    except (ValueError, KeyError, TypeError):
        return []


def _checksum(files: object) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> list[ManifestEntry]:
    """Entries of a file's manifest, newest first; none if the manifest is missing or damaged."""
    try:
        with storage_errors(manifest_path(path)):
            text = manifest_path(path).read_bytes()
    except FileNotFoundError:
        return []
    return [ManifestEntry(**entry) for entry in versions_in(text)]


@contextmanager
def recording(path: Path, entry: ManifestEntry) -> Iterator[None]:
    """Add an entry to the manifest of a file that is renamed inside this context."""
    # Without the lock, two writers would each read the old manifest and one would drop the other's file.
    with locked_folder(path.parent):
        entries = [entry, *read_manifest(path)][:LISTED_VERSIONS]
        write_text(manifest_path(path), manifest_text([asdict(one) for one in entries]))
        yield


@contextmanager
def recorded_path(path: Path, **facts: str | int) -> Iterator[Path]:
    """As `atomic_path`; the file gets a manifest with these facts, beside it."""
    with replacing(path, lambda temporary: recording(path, entry_of(temporary, facts))) as temporary:
        yield temporary

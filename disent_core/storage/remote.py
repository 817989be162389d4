"""Keep the results of a home in a bucket. The folder on this machine has copies, which may be deleted at any time.

    tables/corpora/utterances/sample/en.parquet.manifest            which versions there are, the newest first
    tables/corpora/utterances/sample/en.parquet/<sha256>-<random>   the bytes of one version
    tables/corpora/utterances/sample/.names                         names of the results in the folder
    tables/corpora/utterances/sample/en.parquet.lease               its maker, see `disent_core.storage.leases`

A result is published as a local file is: first its bytes, under a unique name, then the manifest that names them,
which is replaced only if it has not changed since it was read; last its name. So a kill leaves the old version or the
new one, and bytes that no manifest names. A reader starts at the manifest and fetches what its copy lacks. Nothing
depends on a listing of the bucket.

What is not shared: `cache/`, `dagster/`, `downloads/`, and hidden folders, in which an encoder is being pretrained.
"""

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from disent_core.errors import DamagedError, located
from disent_core.storage.bucket import Bucket, Version
from disent_core.storage.files import (
    FOLDER_MANIFEST,
    LISTED_VERSIONS,
    REMEDY,
    ManifestEntry,
    entry_of,
    locked,
    manifest_path,
    manifest_text,
    read_manifest,
    recorded_path,
    replacing_folder,
    versions_in,
    write_text,
)
from disent_core.storage.leases import Lease, Pace, leased
from disent_core.storage.lru_cache import LruCache, touch

log = logging.getLogger(__name__)

_NAMES = ".names"
_OF_THIS_MACHINE = ("cache", "dagster", "downloads")
_FILES = "files"
"""The fact of a folder that has the keys of its files."""


@dataclass(frozen=True)
class Published:
    """A version of a result.

    Attributes:
        entry: its manifest entry, as of a file of a local home.
        object: key of its bytes; of a folder, of the manifest of its files.
    """

    entry: ManifestEntry
    object: str

    @property
    def files(self) -> Mapping[str, str] | None:
        """Of a folder: the key of each of its files; None for a file."""
        return self.entry.facts.get(_FILES)

    @property
    def objects(self) -> set[str]:
        """Keys of all its bytes."""
        return {self.object, *(self.files or {}).values()}

    def is_at(self, path: Path) -> bool:
        """Whether there is a copy of this version."""
        if self.files is None:
            return path.is_file() and read_manifest(path)[:1] == [self.entry]
        manifest = path / FOLDER_MANIFEST
        return manifest.is_file() and entry_of(manifest, {}).is_of(self.entry)


MANIFEST = ".manifest"
_TRIES = 2
CHECKPOINT_SECONDS = 60.0
"""Between two versions of a checkpoint that are published."""


class _CorruptError(Exception):
    """Bytes that were fetched are not those that were written."""


@dataclass
class RemoteHome:
    """The results of a home in a bucket.

    Attributes:
        bucket: where they are.
        folder: their copies on this machine.
        pace: of leases.
        cache: limits the copies; None for no limit.
    """

    bucket: Bucket
    folder: Path
    pace: Pace = field(default_factory=Pace)
    cache: LruCache | None = None
    _leases: list[Lease] = field(default_factory=list)
    _checkpoints: dict[Path, float] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_leases": [], "_checkpoints": {}}  # they belong to this process

    # --- reading ---

    def entry(self, path: Path) -> ManifestEntry | None:
        """Return the manifest entry of the newest version of a result, without its bytes; None if it does not exist."""
        newest = self._newest(path)
        return newest and newest.entry

    def fetch(self, path: Path) -> ManifestEntry | None:
        """Fetch the newest version of a result and return its entry; None if it does not exist."""
        corrupt: list[Published] = []
        touch(manifest_path(path))
        while (newest := self._newest(path)) is not None and not newest.is_at(path):
            if corrupt.count(newest) == _TRIES:
                raise self._quarantine(path, newest)
            with locked(path.with_name(f"{path.name}.copy")):  # so that workers do not fetch the same twice
                try:
                    if not newest.is_at(path):
                        self._fetch(newest, path)
                        self._evict()
                except _CorruptError:
                    corrupt.append(newest)  # look again: the transfer may have failed, or the result been replaced
        return newest and newest.entry

    def names(self, folder: Path) -> list[str]:
        """Names of the results in a folder, sorted."""
        names = self.bucket.read(self._key(folder / _NAMES))
        return [] if names is None else json.loads(names.data)

    def _fetch(self, version: Published, path: Path) -> None:
        if version.files is None:
            with recorded_path(path, **version.entry.facts) as copy:
                self._download(version.object, version.entry, copy)
            return
        with replacing_folder(path) as copy:
            copy.mkdir()
            self._download(version.object, version.entry, copy / FOLDER_MANIFEST)
            for name, recorded in json.loads((copy / FOLDER_MANIFEST).read_bytes()).items():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                self._download(version.files[name], ManifestEntry(**recorded), copy / name)

    def _download(self, key: str, entry: ManifestEntry, path: Path) -> None:
        if self.bucket.download(key, path, entry.bytes) != entry.sha256:
            raise _CorruptError

    def _quarantine(self, path: Path, version: Published) -> DamagedError:
        """Rename a result whose bytes are damaged or gone, so that it is made again; returns the error to raise."""
        damaged = path.with_name(f"{path.name}.damaged")
        self._change(damaged, lambda _: [version])
        self._change_names(path, lambda names: names - {path.name})
        self._change(path, lambda versions: [] if versions[:1] == [version] else None)
        problem = f"this result is not as it was written, or its bytes are gone. It was quarantined as {damaged.name}"
        return DamagedError(located(f"{self.bucket.address}/{self._key(path)}", None, problem, REMEDY))

    # --- writing ---

    def publish(self, path: Path, file: Path, entry: ManifestEntry) -> None:
        """Publish a file as the newest version of a result, whole or not at all."""

        def uploaded() -> Published:
            return Published(entry, self._upload(file, path, entry.sha256))

        self._publish(path, entry, uploaded)

    def publish_folder(self, folder: Path, filled: Path) -> None:
        """As `publish`, for a folder with a manifest of its files."""
        manifest = filled / FOLDER_MANIFEST
        of_manifest = entry_of(manifest, {})

        def uploaded() -> Published:
            files = json.loads(manifest.read_bytes())
            objects = {name: self._upload(filled / name, folder, entry["sha256"]) for name, entry in files.items()}
            whole = ManifestEntry(of_manifest.bytes, of_manifest.sha256, {_FILES: objects})
            return Published(whole, self._upload(manifest, folder, of_manifest.sha256))

        self._publish(folder, of_manifest, uploaded)

    def is_due(self, checkpoint: Path) -> bool:
        """Whether to publish a checkpoint: one a minute is, of all that this process writes."""
        now = time.monotonic()
        is_due = now - self._checkpoints.get(checkpoint, -CHECKPOINT_SECONDS) >= CHECKPOINT_SECONDS
        if is_due:
            self._checkpoints[checkpoint] = now
        return is_due

    def remove(self, path: Path) -> None:
        """Remove a result; its bytes stay until they are collected as orphans."""
        self._change_names(path, lambda names: names - {path.name})
        self._change(path, lambda versions: [] if versions else None)

    def _publish(self, path: Path, entry: ManifestEntry, upload: Callable[[], Published]) -> None:
        published: Published | None = None

        def added(versions: Sequence[Published]) -> Sequence[Published] | None:
            nonlocal published
            if versions and versions[0].entry.is_of(entry) and entry.facts.items() <= versions[0].entry.facts.items():
                return None  # made by another run, or by this one before its answer was lost
            published = published or upload()
            return [published, *versions][:LISTED_VERSIONS]

        self._change(path, added)
        self._change_names(path, lambda names: names | {path.name})
        self._evict()

    def _evict(self) -> None:
        if self.cache is not None:
            self.cache.evict()

    def _upload(self, file: Path, path: Path, sha256: str) -> str:
        """Upload a file under a unique name: nobody else writes this object, and it never changes."""
        key = f"{self._key(path)}/{sha256[:16]}-{uuid.uuid4().hex[:8]}"
        self.bucket.upload(file, key)
        return key

    # --- manifests and names ---

    def _key(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _versions(self, path: Path) -> list[Published]:
        manifest = self.bucket.read(manifest_key(self._key(path)))
        return [] if manifest is None else published_in(manifest.data)

    def _newest(self, path: Path) -> Published | None:
        return next(iter(self._versions(path)), None)

    def _change(self, path: Path, change: Callable[[Sequence[Published]], Sequence[Published] | None]) -> None:
        """Replace the versions in a manifest by `change(versions)`; None leaves it as it is."""

        def changed(text: bytes | None) -> bytes | None:
            versions = change([] if text is None else published_in(text))
            if versions is None:
                return None
            for lease in self._leases:  # a process that has lost a lease must not publish
                lease.renew()
            return manifest_text([{**asdict(version.entry), "object": version.object} for version in versions]).encode()

        self._replace(manifest_key(self._key(path)), changed)

    def _change_names(self, path: Path, change: Callable[[set[str]], set[str]]) -> None:
        def changed(text: bytes | None) -> bytes | None:
            names = set() if text is None else set(json.loads(text))
            return None if change(names) == names else json.dumps(sorted(change(names)), indent=0).encode()

        self._replace(self._key(path.with_name(_NAMES)), changed)

    def _replace(self, key: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replace an object by `change(bytes)`, and try again as long as others replace it first."""
        version: Version | None = None
        while version is None:
            old = self.bucket.read(key)
            text = change(None if old is None else old.data)
            if text is None:
                return
            version = self.bucket.create(key, text) if old is None else self.bucket.replace(key, text, old.version)

    # --- leases ---

    @contextmanager
    def leased(self, path: Path) -> Iterator[None]:
        """Hold the lease of a result; if it is lost, what this process publishes is refused.

        The caller holds the lock of the result on this machine: a lease that this machine has is a killed process's.
        """
        with leased(self.bucket, f"{self._key(path)}.lease", self.pace, self._machine()) as lease:
            self._leases.append(lease)
            try:
                yield
            finally:
                self._leases.remove(lease)

    def _machine(self) -> str:
        """Name of this folder of copies, under which its processes hold leases."""
        path = self.folder / ".machine"
        with locked(path):
            if not path.exists():
                write_text(path, uuid.uuid4().hex)
            return path.read_text(encoding="utf-8")


def manifest_key(key: str) -> str:
    """Key of the manifest of a result."""
    return f"{key}{MANIFEST}"


def published_in(text: bytes) -> list[Published]:
    """The versions in a manifest of a bucket; none if it is damaged."""
    return [
        Published(ManifestEntry(version["bytes"], version["sha256"], version["facts"]), version["object"])
        for version in versions_in(text)
    ]


# --- which homes are in a bucket --------------------------------------------------------------------------

_HOMES: dict[Path, RemoteHome] = {}


def attach(home: RemoteHome) -> None:
    """Keep the results of a folder in a bucket from now on; leases that this process has there stay."""
    if (known := _HOMES.get(home.folder)) is not None:
        home._leases = known._leases
        if known.cache == home.cache:
            home.cache = known.cache  # which knows when it last looked
    _HOMES[home.folder] = home


def attached() -> tuple[RemoteHome, ...]:
    """The homes of this process that are in buckets."""
    return tuple(_HOMES.values())


def detach(folder: Path) -> None:
    """Undo `attach`."""
    _HOMES.pop(folder, None)


def bucket_of(folder: Path) -> Bucket | None:
    """The bucket of the home that has its copies in this folder; None for a home of this machine alone."""
    home = _HOMES.get(folder)
    return home and home.bucket


def remote_of(path: Path) -> RemoteHome | None:
    """The home in a bucket that a result belongs to; None for one of this machine alone."""
    for folder, home in _HOMES.items():
        if path.is_relative_to(folder):
            parts = path.relative_to(folder).parts
            is_shared = bool(parts) and parts[0] not in _OF_THIS_MACHINE
            return home if is_shared and not any(part.startswith(".") for part in parts) else None
    return None

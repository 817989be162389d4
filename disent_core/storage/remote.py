"""Homes whose results are in a bucket. Their folder on this machine has copies, which may be deleted at any time.

    tables/corpora/utterances/sample/en.parquet.manifest            which versions there are, the newest first
    tables/corpora/utterances/sample/en.parquet/<sha256>-<random>   the bytes of one version
    tables/corpora/utterances/sample/.names                         names of the results in the folder
    tables/corpora/utterances/sample/en.parquet.lease               who is making it, see `disent_core.storage.leases`

A result is published as a local file is: first its bytes, under a name of their own, then the manifest that names them,
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
from disent_core.storage.atomic import locked, remove_path, replacing, write_text
from disent_core.storage.leases import Lease, Pace, leased
from disent_core.storage.manifests import (
    FOLDER_MANIFEST,
    LISTED_VERSIONS,
    ManifestEntry,
    entry_of,
    manifest_path,
    manifest_text,
    read_manifest,
    recorded_path,
    versions_in,
)
from disent_core.storage.objects import Bucket, Version
from disent_core.storage.room import Room, use

log = logging.getLogger(__name__)

_NAMES = ".names"
_OF_THIS_MACHINE = ("cache", "dagster", "downloads")
_FILES = "files"
"""The fact of a folder that has the keys of its files."""


@dataclass(frozen=True)
class Published:
    """A version of a result.

    Attributes:
        entry: what the manifest says of it, as of a file of a local home.
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


REMEDY = "Materialise its asset to rebuild it"
MANIFEST = ".manifest"


_TRIES = 2
CHECKPOINT_SECONDS = 60.0
"""Between two versions of a checkpoint that are published."""


class _UnfitError(Exception):
    """Bytes that were fetched are not those that were written."""


@dataclass
class RemoteHome:
    """The results of a home in a bucket.

    Attributes:
        bucket: where they are.
        folder: their copies on this machine.
        pace: of leases.
        room: what the copies may take; None for as much as there is.
    """

    bucket: Bucket
    folder: Path
    pace: Pace = field(default_factory=Pace)
    room: Room | None = None
    _leases: list[Lease] = field(default_factory=list)
    _checkpoints: dict[Path, float] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_leases": [], "_checkpoints": {}}  # they belong to this process

    # --- reading ---

    def entry(self, path: Path) -> ManifestEntry | None:
        """What is recorded of the newest version of a result, without its bytes; None if there is no such result.

        Raises:
            StorageError: if the store fails.
        """
        newest = self._newest(path)
        return newest and newest.entry

    def bring(self, path: Path) -> ManifestEntry | None:
        """Let the copy of a result be its newest version, and return its entry; None if there is no such result.

        Raises:
            DamagedError: if its bytes are not as they were written. The result has been renamed.
            StorageError: if the store or the disk fails.
        """
        unfit: list[Published] = []
        use(manifest_path(path))
        while (newest := self._newest(path)) is not None and not newest.is_at(path):
            if unfit.count(newest) == _TRIES:
                raise self._quarantine(path, newest)
            with locked(path.with_name(f"{path.name}.copy")):  # so that workers do not fetch the same twice
                try:
                    if not newest.is_at(path):
                        self._fetch(newest, path)
                        self._make_room()
                except _UnfitError:
                    unfit.append(newest)  # look again: it may have gone wrong on its way, or be replaced by now
        return newest and newest.entry

    def names(self, folder: Path) -> list[str]:
        """Names of the results in a folder, sorted."""
        found = self.bucket.read(self._key(folder / _NAMES))
        return [] if found is None else json.loads(found.data)

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
            raise _UnfitError

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
        """Publish a file as the newest version of a result, whole or not at all.

        Raises:
            StorageError: if this process has lost a lease, or the store fails.
        """

        def uploaded() -> Published:
            return Published(entry, self._upload(file, path, entry.sha256))

        self._publish(path, entry, uploaded)

    def publish_folder(self, folder: Path, filled: Path) -> None:
        """As `publish`, for a folder with a manifest of its files."""
        manifest = filled / FOLDER_MANIFEST
        entry = entry_of(manifest, {})

        def uploaded() -> Published:
            files = json.loads(manifest.read_bytes())
            objects = {name: self._upload(filled / name, folder, one["sha256"]) for name, one in files.items()}
            whole = ManifestEntry(entry.bytes, entry.sha256, {_FILES: objects})
            return Published(whole, self._upload(manifest, folder, entry.sha256))

        self._publish(folder, entry, uploaded)

    def is_due(self, checkpoint: Path) -> bool:
        """Whether a checkpoint is to be published: one a minute is, of all that this process writes."""
        now = time.monotonic()
        is_due = now - self._checkpoints.get(checkpoint, -CHECKPOINT_SECONDS) >= CHECKPOINT_SECONDS
        if is_due:
            self._checkpoints[checkpoint] = now
        return is_due

    def remove(self, path: Path) -> None:
        """Let there be no such result.

        Raises:
            StorageError: if this process has lost a lease, or the store fails.
        """
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
        self._make_room()

    def _make_room(self) -> None:
        if self.room is not None:
            self.room.make()

    def _upload(self, file: Path, path: Path, sha256: str) -> str:
        """Upload a file under a name of its own: nobody else writes this object, and it never changes."""
        key = f"{self._key(path)}/{sha256[:16]}-{uuid.uuid4().hex[:8]}"
        self.bucket.upload(file, key)
        return key

    # --- manifests and names ---

    def _key(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _versions(self, path: Path) -> list[Published]:
        found = self.bucket.read(manifest_key(self._key(path)))
        return [] if found is None else published_in(found.data)

    def _newest(self, path: Path) -> Published | None:
        return next(iter(self._versions(path)), None)

    def _change(self, path: Path, change: Callable[[Sequence[Published]], Sequence[Published] | None]) -> None:
        """Let a manifest list what `change` makes of its versions; None leaves it as it is."""

        def changed(text: bytes | None) -> bytes | None:
            versions = change([] if text is None else published_in(text))
            if versions is None:
                return None
            for lease in self._leases:  # whoever has lost one must not publish what another is making
                lease.renew()
            return manifest_text([{**asdict(one.entry), "object": one.object} for one in versions]).encode()

        self._replace(manifest_key(self._key(path)), changed)

    def _change_names(self, path: Path, change: Callable[[set[str]], set[str]]) -> None:
        def changed(text: bytes | None) -> bytes | None:
            names = set() if text is None else set(json.loads(text))
            return None if change(names) == names else json.dumps(sorted(change(names)), indent=0).encode()

        self._replace(self._key(path.with_name(_NAMES)), changed)

    def _replace(self, key: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replace an object by what `change` makes of it, again and again while others replace it too."""
        version: Version | None = None
        while version is None:
            found = self.bucket.read(key)
            text = change(None if found is None else found.data)
            if text is None:
                return
            version = self.bucket.create(key, text) if found is None else self.bucket.replace(key, text, found.version)

    # --- leases ---

    @contextmanager
    def leased(self, path: Path) -> Iterator[None]:
        """Hold the lease of a result; what this process publishes meanwhile is refused if it loses the lease.

        The caller holds the lock of the result on this machine: so a lease that this machine has is a killed process's.

        Raises:
            StorageError: if the store fails.
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
        Published(ManifestEntry(one["bytes"], one["sha256"], one["facts"]), one["object"]) for one in versions_in(text)
    ]


@contextmanager
def replacing_folder(folder: Path, publish: Callable[[Path], None] = lambda _: None) -> Iterator[Path]:
    """As `atomic_path`, for a folder that may be there already; `publish` gets the filled one before it is renamed."""

    @contextmanager
    def publishing(filled: Path) -> Iterator[None]:
        publish(filled)
        remove_path(folder)  # not before the new one is complete
        yield

    with replacing(folder, publishing) as beside:
        yield beside


# --- which homes are in a bucket --------------------------------------------------------------------------

_HOMES: dict[Path, RemoteHome] = {}


def attach(home: RemoteHome) -> None:
    """Keep the results of a folder in a bucket, from now on in this process, whose leases there stay its own."""
    if (known := _HOMES.get(home.folder)) is not None:
        home._leases = known._leases
        if known.room == home.room:
            home.room = known.room  # which knows when it last looked
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


@contextmanager
def sole_maker(path: Path) -> Iterator[None]:
    """Let one process at a time make a result: a second one waits, also on another machine if the home is in a bucket.

    A killed process is followed at once on its own machine, and after a minute on another.
    """
    home = remote_of(path)
    with locked(path):
        if home is None:
            yield
            return
        with home.leased(path):
            yield

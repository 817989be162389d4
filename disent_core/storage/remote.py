"""Keep the results of a home in a bucket. The folder on this machine has copies, which may be deleted at any time.

    tables/corpora/utterances/sample/en.parquet.manifest            its versions, newest first
    tables/corpora/utterances/sample/en.parquet/<sha256>-<random>   the bytes of one version
    tables/corpora/utterances/sample/en.parquet.lease               its maker, see `disent_core.storage.leases`

A result is published like a local file: first its bytes, under a unique name, then the manifest that names them, which
is replaced only if it has not changed since it was read. So a kill leaves the old version or the new one, and perhaps
bytes that no manifest names. A reader starts at the manifest and fetches what its copy lacks. A removed result keeps a
manifest without versions. Listings must include earlier writes, as S3, Google Cloud Storage and Azure guarantee.

A step reads its inputs' manifests many times. `RemoteHome.looking` reads each once.

What is not shared: `cache/`, `dagster/`, `downloads/`, and hidden folders, in which an encoder is being pretrained.
"""

import json
import logging
import math
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeGuard

from disent_core.errors import DamagedError, located
from disent_core.storage.bucket import Bucket, ListedObject, StoredObject
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
    remove_path,
    replacing_folder,
    versions_in,
    write_text,
)
from disent_core.storage.leases import Lease, Pace, leased
from disent_core.storage.patience import backoff

log = logging.getLogger(__name__)

MANIFEST = ".manifest"
DAMAGED = ".damaged"  # suffix of a quarantined result's name
CHECKPOINT_SECONDS = 60.0  # between two published versions of a checkpoint
RIVALS = 0.1, 5.0  # seconds before a rejected replacement is retried: at first, and at most
LOOK_SECONDS = 60.0  # how long a look at all manifests stays valid
LISTED_AT_ONCE = 5_000  # most manifests and leases listed for one step; a request lists 1,000 objects
AT_ONCE = 16  # concurrent requests
_TRIES = 2
_LEASE = ".lease"
_OF_THIS_MACHINE = ("cache", "dagster", "downloads")
_FILES = "files"  # the fact with the keys of a folder's files


# --- copies on this machine -------------------------------------------------------------------------------

IN_USE_SECONDS = 3_600.0
LOOK_EVERY_SECONDS = 60.0
_CACHED = ("tables", "plots", "cache/arrays")


@dataclass
class LruCache:
    """A limit on the size of the copies; the least recently used are evicted.

    Every copy can be fetched or made again. Copies used within the hour stay, since a process may be about to open
    them; so do encoders, which a training may reopen after hours.
    """

    folder: Path  # of a home's copies; folders beside it may be homes themselves, which can't be fetched again
    most: int  # bytes
    _looked: float = field(default=-LOOK_EVERY_SECONDS, compare=False)

    def evict(self) -> None:
        """Remove the least recently used copies until the rest fits; at most once a minute."""
        if time.monotonic() - self._looked < LOOK_EVERY_SECONDS:
            return
        self._looked = time.monotonic()
        copies = sorted((*_used_and_bytes(copy), copy) for copy in self._copies())
        total = sum(size for _, size, _ in copies)
        for _, size, copy in copies:
            if total > self.most and time.time() - _used_and_bytes(copy)[0] > IN_USE_SECONDS:
                for path in copy:
                    remove_path(path)
                total -= size

    def _copies(self) -> Iterator[list[Path]]:
        """Yield the paths of each copy: a result with its manifest, or a folder of arrays."""
        for name in _CACHED:
            for file in _files(self.folder / name):
                if file.suffix == MANIFEST:
                    yield [file.with_suffix(""), file]
                elif file.name == "record.json":
                    yield [file.parent]


def touch(path: Path) -> None:
    """Mark a copy as just used, by touching a result's manifest or the record of arrays."""
    with suppress(OSError):  # no such file, or read-only access
        os.utime(path)


def _used_and_bytes(copy: list[Path]) -> tuple[float, int]:
    used, size = 0.0, 0
    for file in (file for path in copy for file in _files(path)):
        with suppress(FileNotFoundError):  # another process has removed it
            used, size = max(used, file.stat().st_mtime), size + file.stat().st_size
    return used, size


def _files(path: Path) -> Iterator[Path]:
    """Yield all files below a folder, or the file itself; tolerate removals by other processes."""
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)


# --- results in the bucket --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A version of a result."""

    entry: ManifestEntry  # its manifest entry, as for a file of a local home
    object: str  # key of its bytes; for a folder, of the manifest of its files

    @property
    def files(self) -> Mapping[str, str] | None:
        """For a folder, the key of each of its files; None for a file."""
        return self.entry.facts.get(_FILES)

    @property
    def objects(self) -> set[str]:
        """Keys of all its bytes."""
        return {self.object, *(self.files or {}).values()}

    def is_in(self, listed: Mapping[str, ListedObject]) -> bool:
        """Whether all its bytes are among the objects of a bucket."""
        return self.objects <= listed.keys() and listed[self.object].bytes == self.entry.bytes

    def is_at(self, path: Path) -> bool:
        """Whether `path` has a copy of this version."""
        if self.files is None:
            return path.is_file() and read_manifest(path)[:1] == [self.entry]
        manifest = path / FOLDER_MANIFEST
        return manifest.is_file() and entry_of(manifest, {}).is_of(self.entry)


class _CorruptError(Exception):
    """The fetched bytes are not those that were written."""


@dataclass
class _Look:
    """What has been seen of a bucket since the start of a look at it."""

    manifests: dict[str, StoredObject | None] = field(default_factory=dict)  # read or written since; None: absent
    listed: dict[str, ListedObject] | None = None  # manifests and leases at the start, if listed
    began: float = -math.inf


_LOOK: ContextVar[tuple["RemoteHome", _Look] | None] = ContextVar("look", default=None)
"""The current look of this thread, and its home."""


@dataclass
class RemoteHome:
    """The results of a home in a bucket."""

    bucket: Bucket  # where they are
    folder: Path  # their copies on this machine
    pace: Pace = field(default_factory=Pace)  # of leases
    cache: LruCache | None = None  # limits the copies; None for no limit
    _leases: list[Lease] = field(default_factory=list)
    _checkpoints: dict[Path, float] = field(default_factory=dict)
    _known: dict[str, StoredObject] = field(default_factory=dict)  # manifests that looks have read
    _whole: _Look = field(default_factory=_Look)  # the last look at everything

    def __getstate__(self) -> dict[str, Any]:
        # They belong to this process.
        return {**self.__dict__, "_leases": [], "_checkpoints": {}, "_known": {}, "_whole": _Look()}

    @contextmanager
    def looking(self, seconds: float | None = None) -> Iterator[None]:
        """Read each manifest only once within this block, unless this process holds the lease of its result.

        Manifests are listed first, unless the bucket has many: those unchanged since another look are not read again.
        With `seconds`, start with a look at all of them, unless the last was as recent: they are listed, changed ones
        are read concurrently, and results whose bytes are gone are quarantined.
        """
        lost: Mapping[str, Published] = {}
        if seconds is None:
            is_large = len(self._whole.listed or ()) > LISTED_AT_ONCE
            look = _Look(listed=None if is_large else _manifests_and_leases(self._listed()))
        else:
            if time.monotonic() - self._whole.began >= seconds:
                self._whole, lost = self._look_at_all()
            look = self._whole
        token = _LOOK.set((self, look))
        try:
            self._quarantine_lost(lost)
            yield
        finally:
            _LOOK.reset(token)

    def _listed(self) -> dict[str, ListedObject]:
        return {entry.key: entry for entry in self.bucket.listed()}

    def _look_at_all(self) -> tuple[_Look, Mapping[str, Published]]:
        """Return a look at all manifests, and by manifest the versions whose bytes are gone or truncated."""
        began, listed = time.monotonic(), self._listed()
        manifests = {key: entry for key, entry in listed.items() if key.endswith(MANIFEST)}
        changed = [key for key, entry in manifests.items() if not _is_of(self._known.get(key), entry)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for key, manifest in zip(changed, threads.map(self.bucket.read, changed), strict=True):
                if manifest is not None:
                    self._known[key] = manifest
        lost = {
            key: version
            for key, entry in manifests.items()
            # Bytes are written before the manifest that names them, and are listed after it: `/` sorts after `.`.
            if not key.endswith(f"{DAMAGED}{MANIFEST}") and _is_of(manifest := self._known.get(key), entry)
            for version in published_in(manifest.data)[:1]
            if not version.is_in(listed)
        }
        return _Look(listed=_manifests_and_leases(listed), began=began), lost

    @property
    def _look(self) -> _Look | None:
        home, look = _LOOK.get() or (None, None)
        return look if home is self else None

    def entry(self, path: Path) -> ManifestEntry | None:
        """Return the manifest entry of a result's newest version, without fetching bytes; None if it does not exist."""
        newest = self._newest(path)
        return newest and newest.entry

    def fetch(self, path: Path) -> ManifestEntry | None:
        """Fetch the newest version of a result and return its entry; None if it does not exist."""
        corrupt: list[Published] = []
        touch(manifest_path(path))
        while (newest := self._newest(path, again=bool(corrupt))) is not None and not newest.is_at(path):
            if corrupt.count(newest) == _TRIES:
                raise self._quarantine(path, newest)
            with locked(path.with_name(f"{path.name}.copy")):  # so that workers do not fetch the same bytes twice
                try:
                    if not newest.is_at(path):
                        self._fetch(newest, path)
                        self._evict()
                except _CorruptError:
                    corrupt.append(newest)  # look again: the transfer failed, or the result was replaced
        return newest and newest.entry

    def names(self, folder: Path, *, is_deep: bool = False) -> list[str]:
        """Return the sorted names of the results in a folder; if `is_deep`, also the paths of those in subfolders."""
        prefix, look = f"{self._key(folder)}/", self._look or _Look()
        listed = look.listed
        if listed is None:
            listed = {entry.key: entry for entry in self.bucket.listed(prefix, is_deep=is_deep)}
        files = {key.removeprefix(prefix) for key in chain(listed, look.manifests) if key.startswith(prefix)}
        names = (
            file.removesuffix(MANIFEST) for file in files if file.endswith(MANIFEST) and (is_deep or "/" not in file)
        )
        return sorted(name for name in names if _has_versions(f"{prefix}{name}{MANIFEST}", look.manifests, listed))

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
        """Rename a result with damaged or missing bytes, so that it is made again; return the error to raise."""
        damaged = path.with_name(f"{path.name}{DAMAGED}")
        self._change(damaged, lambda _: [version])
        self._change(path, lambda versions: [] if versions[:1] == [version] else None)
        problem = f"this result is not as it was written, or its bytes are gone. It was quarantined as {damaged.name}"
        return DamagedError(located(f"{self.bucket.address}/{self._key(path)}", None, problem, REMEDY))

    def _quarantine_lost(self, lost: Mapping[str, Published]) -> None:
        """Quarantine results whose bytes are gone, given by the keys of their manifests."""
        problems = [self._quarantine(self.folder / key.removesuffix(MANIFEST), lost[key]) for key in lost]
        if problems:
            others = f"; also quarantined: {len(problems) - 1} more" if problems[1:] else ""
            log.warning("%s%s", problems[0], others)

    def publish(self, path: Path, file: Path, entry: ManifestEntry) -> None:
        """Publish a file as the newest version of a result, whole or not at all."""
        self._publish(path, entry, lambda: Published(entry, self._upload(file, path, entry.sha256)))

    def publish_folder(self, folder: Path, filled: Path) -> None:
        """Like `publish`, for a folder with a manifest of its files."""
        manifest = filled / FOLDER_MANIFEST
        of_manifest = entry_of(manifest, {})

        def uploaded() -> Published:
            files = json.loads(manifest.read_bytes())
            objects = {name: self._upload(filled / name, folder, entry["sha256"]) for name, entry in files.items()}
            entry_of_folder = replace(of_manifest, facts={_FILES: objects})
            return Published(entry_of_folder, self._upload(manifest, folder, of_manifest.sha256))

        self._publish(folder, of_manifest, uploaded)

    def is_due(self, checkpoint: Path) -> bool:
        """Whether to publish a version of a checkpoint now: at most one per minute."""
        now = time.monotonic()
        if now - self._checkpoints.get(checkpoint, -CHECKPOINT_SECONDS) < CHECKPOINT_SECONDS:
            return False
        self._checkpoints[checkpoint] = now
        return True

    def remove(self, path: Path) -> None:
        """Remove a result; its bytes stay until they are collected as orphans."""
        self._change(path, lambda versions: [] if versions else None)

    def _publish(self, path: Path, entry: ManifestEntry, upload: Callable[[], Published]) -> None:
        published: Published | None = None

        def added(versions: Sequence[Published]) -> Sequence[Published] | None:
            nonlocal published
            if versions and versions[0].entry.is_of(entry) and entry.facts.items() <= versions[0].entry.facts.items():
                return None  # made by another run, or by this one if the answer was lost
            published = published or upload()
            return [published, *versions][:LISTED_VERSIONS]

        self._change(path, added)
        self._evict()

    def _evict(self) -> None:
        if self.cache is not None:
            self.cache.evict()

    def _upload(self, file: Path, path: Path, sha256: str) -> str:
        """Upload a file under a unique name: nobody else writes this object, and it never changes."""
        key = f"{self._key(path)}/{sha256[:16]}-{uuid.uuid4().hex[:8]}"
        self.bucket.upload(file, key)
        return key

    def _key(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _newest(self, path: Path, *, again: bool = False) -> Published | None:
        manifest = self._read(path, again=again)
        return None if manifest is None else next(iter(published_in(manifest.data)), None)

    def _read(self, path: Path, *, again: bool = False) -> StoredObject | None:
        """Read the manifest of a result; with `again`, even if a block of `looking` has read it."""
        key, look = f"{self._key(path)}{MANIFEST}", self._look
        holds = any(lease.key == f"{self._key(path)}{_LEASE}" for lease in self._leases)
        if look is not None and not again and not holds:
            if key in look.manifests:
                return look.manifests[key]
            if look.listed is not None:
                if key not in look.listed:
                    return None
                if _is_of(known := self._known.get(key), look.listed[key]):
                    return known
        return self._seen(key, self.bucket.read(key))

    def _seen(self, key: str, manifest: StoredObject | None) -> StoredObject | None:
        if self._look is not None:
            self._look.manifests[key] = manifest
            if manifest is not None:
                self._known[key] = manifest
        return manifest

    def _change(self, path: Path, change: Callable[[Sequence[Published]], Sequence[Published] | None]) -> None:
        """Replace the versions in a manifest by `change(versions)`; retry as long as others replace them first.

        If `change` returns None, the manifest is unchanged.
        """
        key = f"{self._key(path)}{MANIFEST}"
        for tries in count():
            old = self._read(path, again=tries > 0)
            versions = change([] if old is None else published_in(old.data))
            if versions is None:
                return
            for lease in self._leases:  # a process that has lost a lease must not publish
                lease.renew()
            text = _manifest(versions)
            version = self.bucket.create(key, text) if old is None else self.bucket.replace(key, text, old.version)
            if version is not None:
                self._seen(key, StoredObject(text, version))
                return
            time.sleep(backoff(tries, *RIVALS))

    @contextmanager
    def leased(self, path: Path) -> Iterator[None]:
        """Hold the lease of a result; if it is lost, this process's publications are rejected.

        The caller holds the result's lock on this machine, so any lease held by this machine is a killed process's.
        """
        key, look = f"{self._key(path)}{_LEASE}", self._look
        is_new = look is not None and look.listed is not None and key not in look.listed
        with leased(self.bucket, key, self.pace, self._machine(), is_new=is_new) as lease:
            self._leases.append(lease)
            try:
                yield
            finally:
                self._leases.remove(lease)

    def _machine(self) -> str:
        """Return the name under which processes of this folder of copies hold leases."""
        path = self.folder / ".machine"
        with locked(path):
            if not path.exists():
                write_text(path, uuid.uuid4().hex)
            return path.read_text(encoding="utf-8")


def _manifests_and_leases(listed: Mapping[str, ListedObject]) -> dict[str, ListedObject]:
    return {key: entry for key, entry in listed.items() if key.endswith((MANIFEST, _LEASE))}


def _is_of(manifest: StoredObject | None, listed: ListedObject) -> TypeGuard[StoredObject]:
    """Whether a manifest read earlier is the listed one; False, so it is read again, if the store lists no ETags."""
    return manifest is not None and listed.e_tag is not None and manifest.version.get("e_tag") == listed.e_tag


def _has_versions(key: str, seen: Mapping[str, StoredObject | None], listed: Mapping[str, ListedObject]) -> bool:
    """Whether a manifest has versions: a removed result's manifest has none, and is the shortest."""
    if key in seen:
        return (manifest := seen[key]) is not None and bool(published_in(manifest.data))
    return listed[key].bytes > len(_manifest([]))


def _manifest(versions: Sequence[Published]) -> bytes:
    return manifest_text([{**asdict(version.entry), "object": version.object} for version in versions]).encode()


def published_in(text: bytes) -> list[Published]:
    """Return the versions in a bucket's manifest; none if it is damaged."""
    return [
        Published(ManifestEntry(version["bytes"], version["sha256"], version["facts"]), version["object"])
        for version in versions_in(text)
    ]


# --- which homes are in a bucket --------------------------------------------------------------------------

_HOMES: dict[Path, RemoteHome] = {}


def attach(home: RemoteHome) -> None:
    """Keep the results of a folder in a bucket from now on; this process keeps its leases there."""
    if (known := _HOMES.get(home.folder)) is not None:
        home._leases = known._leases
        if known.bucket == home.bucket:
            home.bucket = known.bucket  # has open connections, and knows whether its store has answered
        if known.cache == home.cache:
            home.cache = known.cache  # which knows when it last looked
    _HOMES[home.folder] = home


def attached() -> tuple[RemoteHome, ...]:
    """Return this process's homes in buckets."""
    return tuple(_HOMES.values())


def detach(folder: Path) -> None:
    _HOMES.pop(folder, None)


def bucket_of(folder: Path) -> Bucket | None:
    """Return the bucket of the home whose copies are in this folder; None for a local home."""
    home = _HOMES.get(folder)
    return home and home.bucket


def looking(folder: Path, seconds: float | None = None) -> AbstractContextManager[None]:
    """Like `RemoteHome.looking`, if this folder's home is in a bucket; otherwise do nothing."""
    home = _HOMES.get(folder)
    return nullcontext() if home is None else home.looking(seconds)


def remote_of(path: Path) -> RemoteHome | None:
    """Return the bucket home that a result belongs to; None for a local home."""
    for folder, home in _HOMES.items():
        if path.is_relative_to(folder):
            parts = path.relative_to(folder).parts
            is_shared = bool(parts) and parts[0] not in _OF_THIS_MACHINE
            return home if is_shared and not any(part.startswith(".") for part in parts) else None
    return None


# --- orphans ----------------------------------------------------------------------------------------------

_BYTES = re.compile(r"(?:.*/)?[0-9a-f]{16}-[0-9a-f]{8}")
_UNFINISHED = ("checkpoints/", "shards/")  # keys of unfinished work; if old, it was abandoned, or can be restarted


def find_orphans(bucket: Bucket, older: timedelta) -> list[ListedObject]:
    """Find objects that can be deleted: bytes of no result, and old checkpoints and quarantined results.

    Killed processes leave them. Objects changed more recently than `older` ago, by the store's clock, are kept. Names
    of a result's bytes are used once, so bytes that no manifest names and that are older than any upload takes will
    never belong to a result.
    """
    marker = f".gc/{uuid.uuid4().hex}"
    bucket.create(marker, b"")
    try:
        listed = {object.key: object for object in bucket.listed()}
    finally:
        bucket.delete(marker)
    before = listed.pop(marker).modified - older
    old = [object for object in listed.values() if object.modified <= before]
    abandoned = [object for object in old if _is_abandoned(object.key)]
    # Manifests are read after the listing, which lacks what was published meanwhile.
    keys = sorted(key for key in listed.keys() - {object.key for object in abandoned} if key.endswith(MANIFEST))
    manifests = [manifest for key in keys if (manifest := bucket.read(key)) is not None]
    needed = {key for manifest in manifests for version in published_in(manifest.data) for key in version.objects}
    return abandoned + [object for object in old if _BYTES.fullmatch(object.key) and object.key not in needed]


def _is_abandoned(key: str) -> bool:
    is_unfinished = key.startswith(_UNFINISHED) and key.endswith(MANIFEST)
    is_of_before = key.endswith("/.names")  # version 0.3 listed the results of a folder there
    return is_unfinished or is_of_before or key.endswith(f"{DAMAGED}{MANIFEST}") or key.startswith((".doctor/", ".gc/"))


def delete_orphans(bucket: Bucket, orphans: Sequence[ListedObject]) -> int:
    for orphan in orphans:
        bucket.delete(orphan.key)
    return sum(orphan.bytes for orphan in orphans)

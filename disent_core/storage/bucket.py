"""Read and write the objects of a bucket: S3, Google Cloud Storage, Azure, or memory in tests.

A write is rejected if it would create an object that exists, or replace one that has changed meanwhile. All of
`disent_core.storage.remote` depends on this. obstore retries requests that fail briefly: ten times, for 2 to 6 seconds.
`Patience` waits for a store that is unavailable for longer.
"""

import hashlib
import os
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from disent_core.errors import StorageError, TransientError, located, shortened
from disent_core.storage.patience import Patience

SCHEMES = ("s3", "gs", "az")
CHUNK = 1 << 26  # bytes of one request for a large object, which must be answered within half a minute
_PART = 1 << 24
_AGAIN = "No complete file is lost: check the network and the store, and start the same run again"
_CREDENTIALS = "Give this process credentials that may list, read, write and delete there"
_RETRY = {"retry_timeout": timedelta(minutes=1)}  # for obstore, which waits half a minute for each answer
_REQUEST = re.compile(r"(Generic \w+ error: )?(Error performing \w+ \S+ in .*? - )?")
_REFUSED = re.compile(r"status code: 4(?!08|29)")  # the request is wrong, so retrying is useless

Answer = TypeVar("Answer")
Version = Mapping[str, str]  # version of an object that was read or written; opaque


def _obstore() -> Any:  # of the extra `s3`
    return import_module("obstore")


@dataclass(frozen=True)
class StoredObject:
    """The bytes of an object, and their version."""

    data: bytes
    version: Version


@dataclass(frozen=True)
class ListedObject:
    key: str
    bytes: int
    modified: datetime
    e_tag: str | None = None  # of its version, if listed by the store


@dataclass
class Bucket:
    """A bucket, or the part of it below a prefix: `s3://bucket/prefix`, `gs://...` or `az://...`.

    The options are obstore's, in addition to those from the environment. Nothing is opened before the first request.
    """

    address: str
    options: Mapping[str, Any] = field(default_factory=dict)
    _stores: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)
    patience: Patience = field(default_factory=lambda: Patience(""), repr=False, compare=False)

    def __post_init__(self) -> None:
        self.patience.server = self.address

    @property
    def hasty(self) -> "Bucket":
        """The same bucket, but without waiting for an unavailable store."""
        return replace(self, patience=Patience(self.address, 0.0))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stores": {}}  # another process opens its own

    @property
    def _store(self) -> Any:
        """Client of this process: a fork can't use its parent's, because it lacks the parent's threads."""
        if os.getpid() not in self._stores:
            options = {"retry_config": _RETRY, **self.options}
            self._stores[os.getpid()] = _obstore().store.from_url(self.address, **options)
        return self._stores[os.getpid()]

    def read(self, key: str) -> StoredObject | None:
        """Read an object; None if it does not exist."""

        def request() -> StoredObject:
            answer = _obstore().get(self._store, key)
            return StoredObject(bytes(answer.bytes()), _version(answer.meta))

        return self._existing(key, request)

    def create(self, key: str, data: bytes) -> Version | None:
        """Write a new object and return its version; None if the object already exists."""
        return self._put(key, data, "create")

    def replace(self, key: str, data: bytes, version: Version) -> Version | None:
        """Replace this version of an object and return the new version; None if this version is no longer current."""
        return self._put(key, data, dict(version))

    def _put(self, key: str, data: bytes, mode: Any) -> Version | None:
        refused = (_obstore().exceptions.AlreadyExistsError, _obstore().exceptions.PreconditionError)

        def request() -> Version | None:
            with suppress(*refused):
                return _version(_obstore().put(self._store, key, data, mode=mode))
            return None

        if (version := self._ask(key, request)) is not None:
            return version
        # If an answer is lost, the request is repeated and then rejected because of its own first success.
        now = self.read(key)
        return now.version if now is not None and now.data == data else None

    def delete(self, key: str) -> None:
        self._existing(key, lambda: _obstore().delete(self._store, key))

    def listed(self, prefix: str = "", *, is_deep: bool = True) -> list[ListedObject]:
        """Return all objects below a prefix; unless `is_deep`, without those in subfolders."""

        def request() -> Any:
            if is_deep:
                return _obstore().list(self._store, prefix or None).collect()
            return _obstore().list_with_delimiter(self._store, prefix or None)["objects"]

        entries = self._ask(prefix, request)
        return [ListedObject(entry["path"], entry["size"], entry["last_modified"], entry["e_tag"]) for entry in entries]

    def size(self, key: str) -> int | None:
        """Return the size of an object in bytes; None if the object or the bucket does not exist."""

        def request() -> int | None:
            with suppress(FileNotFoundError):
                return _obstore().head(self._store, key)["size"]
            return None

        return self._ask(key, request)

    def upload(self, path: Path, key: str) -> None:
        """Upload a file as an object that nobody else writes; it appears whole or not at all."""
        self._ask(key, lambda: _obstore().put(self._store, key, path, chunk_size=_PART))

    def download(self, key: str, path: Path, size: int) -> str | None:
        """Download an object of this size to a file and return its SHA-256; None if it does not exist."""
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for start in range(0, size, CHUNK):
                part = self._existing(key, partial(self._range, key, start, min(start + CHUNK, size)))
                if part is None:
                    return None
                digest.update(part)
                file.write(part)
        return digest.hexdigest()

    def _range(self, key: str, start: int, end: int) -> Any:
        return _obstore().get_range(self._store, key, start=start, end=end)

    def _existing(self, key: str, request: Callable[[], Answer]) -> Answer | None:
        """Return the store's answer; None if the object does not exist. A missing bucket is an error."""

        def asked() -> Answer | None:
            try:
                return request()
            except FileNotFoundError as error:
                if _is_without_bucket(error):
                    raise
            return None

        return self._ask(key, asked)

    def _ask(self, key: str, request: Callable[[], Answer]) -> Answer:
        """Return the store's answer; report its errors in one line, and let other errors pass."""
        exceptions = _obstore().exceptions
        try:
            return self.patience.ask(request, _is_away)
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise self._error(key, "the store denies access", _CREDENTIALS) from error
        except exceptions.NotSupportedError as error:
            remedy = "Use one that can: S3, Google Cloud Storage, Azure"
            raise self._error(key, f"the store can't do this ({_reason(error)})", remedy) from error
        except (exceptions.BaseError, FileNotFoundError) as error:  # the latter also for a lost upload
            if _is_without_bucket(error):
                remedy = "Create it, or set DISENT_HOME to another"
                raise self._error(key, "this bucket does not exist", remedy) from error
            problem = f"the store fails or does not answer ({_reason(error)})"
            raise self._error(key, problem, _AGAIN, TransientError if _is_away(error) else StorageError) from error

    def _error(self, key: str, problem: str, remedy: str, kind: type[StorageError] = StorageError) -> StorageError:
        return kind(located(f"{self.address.rstrip('/')}/{key}", None, problem, remedy))


def _is_away(error: Exception) -> bool:
    """Whether the store does not answer, breaks off its answer, or reports an internal error."""
    return isinstance(error, _obstore().exceptions.GenericError) and not _REFUSED.search(_reason(error))


def _version(meta: Mapping[str, Any]) -> Version:
    """Return the identity of a version: stores use one of the two fields, and obstore rejects None."""
    return {name: meta[name] for name in ("e_tag", "version") if meta[name] is not None}


def _is_without_bucket(error: Exception) -> bool:
    return "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error)


def _reason(error: Exception) -> str:
    """Return the first line of an error without the request; the other lines describe the client."""
    return shortened(_REQUEST.sub("", str(error).strip().split("\n", 1)[0], count=1), 200)


# --- check ------------------------------------------------------------------------------------------------

RACERS = 16  # concurrent writes


def check_bucket(bucket: Bucket) -> None:
    """Race writes to create an object and to replace a version; raise StorageError unless exactly one of each wins."""
    key = f".doctor/{uuid.uuid4().hex}"
    try:
        created, replaced = _winners(lambda text: bucket.create(key, text)), 0
        if (stored := bucket.read(key)) is not None:
            replaced = _winners(lambda text: bucket.replace(key, text, stored.version))
    finally:
        bucket.delete(key)
    if (created, replaced) != (1, 1):
        problem = (
            f"of {RACERS} concurrent writes, {created} created the same object and {replaced} replaced the same "
            "version of it; exactly one of each should succeed"
        )
        remedy = "Results could be lost there: use a store with conditional writes: S3, Google Cloud Storage, Azure, R2"
        raise StorageError(located(bucket.address, None, problem, remedy))


def _winners(write: Callable[[bytes], Version | None]) -> int:
    """Count the writes that succeed, each in its own thread with its own text."""
    start = threading.Barrier(RACERS)

    def race(text: bytes) -> bool:
        start.wait()
        return write(text) is not None

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(race, [uuid.uuid4().hex.encode() for _ in range(RACERS)]))

"""Read and write the objects of a bucket: S3, Google Cloud Storage, Azure, or memory in tests.

A write is refused if it should create an object that exists, or replace one that has changed meanwhile. All of
`disent_core.storage.remote` depends on this. obstore repeats requests that fail for a moment, for up to three minutes.
"""

import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from disent_core.errors import StorageError, located, shortened

SCHEMES = ("s3", "gs", "az")
CHUNK = 1 << 26  # bytes of one request for a large object, which must be answered within half a minute
_PART = 1 << 24
_AGAIN = "No complete file is lost: check the network and the store, and start the same run again"
_CREDENTIALS = "Give this process credentials that may list, read, write and delete there"
_TRIES = 4

Version = Mapping[str, str]  # which version of an object was read or written; opaque


def _obstore() -> Any:  # of the extra `s3`
    return import_module("obstore")


@dataclass(frozen=True)
class StoredObject:
    """The bytes of an object, and which version of it they are."""

    data: bytes
    version: Version


@dataclass(frozen=True)
class ListedObject:
    """An object in a listing."""

    key: str
    bytes: int
    modified: datetime


@dataclass
class Bucket:
    """A bucket, or the part of it below a prefix: `s3://bucket/prefix`, `gs://...` or `az://...`.

    The options are of obstore, beside what it takes from the environment. Nothing is opened before the first request.
    """

    address: str
    options: Mapping[str, Any] = field(default_factory=dict)
    _stores: dict[int, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stores": {}}  # another process opens its own

    @property
    def _store(self) -> Any:
        """Client of this process: a fork can't use that of its parent, whose threads it does not have."""
        if os.getpid() not in self._stores:
            with self._errors(""):
                self._stores[os.getpid()] = _obstore().store.from_url(self.address, **self.options)
        return self._stores[os.getpid()]

    def read(self, key: str) -> StoredObject | None:
        """Read an object; None if it does not exist."""
        with self._errors(key), _none_if_absent():
            answer = _request("get", self._store, key)
            return StoredObject(bytes(answer.bytes()), _version(answer.meta))
        return None

    def create(self, key: str, data: bytes) -> Version | None:
        """Write an object that does not exist, and return its version; None if there is another one."""
        return self._put(key, data, "create")

    def replace(self, key: str, data: bytes, version: Version) -> Version | None:
        """Replace this version of an object, and return the new one; None if it is not this version any more."""
        return self._put(key, data, dict(version))

    def _put(self, key: str, data: bytes, mode: Any) -> Version | None:
        refused = (_obstore().exceptions.AlreadyExistsError, _obstore().exceptions.PreconditionError)
        with self._errors(key):
            try:
                return _version(_request("put", self._store, key, data, mode=mode))
            except refused:
                pass
        # If an answer is lost, obstore repeats the request, which its own first success then refuses.
        now = self.read(key)
        return now.version if now is not None and now.data == data else None

    def delete(self, key: str) -> None:
        """Delete an object, if there is one."""
        with self._errors(key), _none_if_absent():
            _request("delete", self._store, key)

    def listed(self, prefix: str = "") -> Iterator[ListedObject]:
        """Yield all objects below a prefix. A listing may be out of date: only clean-up may depend on it."""
        with self._errors(prefix):
            for batch in _obstore().list(self._store, prefix or None):
                for entry in batch:
                    yield ListedObject(entry["path"], entry["size"], entry["last_modified"])

    def size(self, key: str) -> int | None:
        """Return the bytes of an object; None if the object or the bucket does not exist."""
        with self._errors(key), suppress(FileNotFoundError):
            return _request("head", self._store, key)["size"]
        return None

    def upload(self, path: Path, key: str) -> None:
        """Write a file as an object that nobody else writes; it appears whole or not at all."""
        with self._errors(key):
            _request("put", self._store, key, path, chunk_size=_PART)

    def download(self, key: str, path: Path, size: int) -> str | None:
        """Write an object of this size to a file, and return its SHA-256; None if it does not exist."""
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for start in range(0, size, CHUNK):
                part = None
                with self._errors(key), _none_if_absent():
                    part = _request("get_range", self._store, key, start=start, end=min(start + CHUNK, size))
                if part is None:
                    return None
                digest.update(part)
                file.write(part)
        return digest.hexdigest()

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """Report errors of the store in one line; other errors pass."""
        exceptions = _obstore().exceptions
        try:
            yield
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise self._error(key, "the store denies access", _CREDENTIALS) from error
        except exceptions.NotSupportedError as error:
            remedy = "Use one that can: S3, Google Cloud Storage, Azure"
            raise self._error(key, f"the store can't do this ({_reason(error)})", remedy) from error
        except (exceptions.BaseError, FileNotFoundError) as error:  # the latter also for an upload that is gone
            if _is_without_bucket(error):
                raise self._error(
                    key, "this bucket does not exist", "Create it, or set DISENT_HOME to another"
                ) from error
            raise self._error(key, f"the store fails or does not answer ({_reason(error)})", _AGAIN) from error

    def _error(self, key: str, problem: str, remedy: str) -> StorageError:
        return StorageError(located(f"{self.address.rstrip('/')}/{key}", None, problem, remedy))


def _request(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of obstore, again if the body of an answer is cut, which obstore itself does not repeat."""
    call = getattr(_obstore(), name)
    for _ in range(_TRIES - 1):
        try:
            return call(*arguments, **options)
        except _obstore().exceptions.GenericError as error:
            if "response body error" not in str(error):
                raise
    return call(*arguments, **options)


@contextmanager
def _none_if_absent() -> Iterator[None]:
    """Leave the block of an object that does not exist; a bucket that does not exist is an error."""
    try:
        yield
    except FileNotFoundError as error:
        if _is_without_bucket(error):
            raise


def _version(meta: Mapping[str, Any]) -> Version:
    """Return what identifies a version: stores use one of the two, and obstore rejects None."""
    return {name: meta[name] for name in ("e_tag", "version") if meta[name] is not None}


def _is_without_bucket(error: Exception) -> bool:
    return "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error)


def _reason(error: Exception) -> str:
    """Return the first line of an error: the rest describes the client."""
    return shortened(str(error).strip().split("\n", 1)[0], 200)


# --- check ------------------------------------------------------------------------------------------------

RACERS = 16  # concurrent writes


def check_bucket(bucket: Bucket) -> None:
    """Let writes race to create an object and to replace a version of it; StorageError unless one of each wins."""
    key = f".doctor/{uuid.uuid4().hex}"
    try:
        created, replaced = _winners(lambda text: bucket.create(key, text)), 0
        if (stored := bucket.read(key)) is not None:
            replaced = _winners(lambda text: bucket.replace(key, text, stored.version))
    finally:
        bucket.delete(key)
    if (created, replaced) != (1, 1):
        problem = (
            f"of {RACERS} concurrent writes, {created} created one object and {replaced} replaced one version of it, "
            "and each should be 1"
        )
        remedy = "Results could be lost there: use one with conditional writes: S3, Google Cloud Storage, Azure, R2"
        raise StorageError(located(bucket.address, None, problem, remedy))


def _winners(write: Callable[[bytes], Version | None]) -> int:
    """Count the writes that succeed, each in its own thread with its own text."""
    start = threading.Barrier(RACERS)

    def race(text: bytes) -> bool:
        start.wait()
        return write(text) is not None

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(race, [uuid.uuid4().hex.encode() for _ in range(RACERS)]))

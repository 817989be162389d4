"""Check what a home must guarantee: of writes that race in a bucket, one succeeds; a folder has locks."""

import fcntl
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from disent_core.errors import StorageError, located
from disent_core.storage.bucket import Bucket, Version
from disent_core.storage.files import storage_errors

RACERS = 16
_REMEDY = "Results could be lost there: use one with conditional writes: S3, Google Cloud Storage, Azure, R2"


@dataclass(frozen=True)
class RaceCounts:
    """How many of `RACERS` concurrent writes created an object, and how many replaced one version of it."""

    created: int
    replaced: int


def check_bucket(bucket: Bucket) -> RaceCounts:
    """Let writes race to create an object and to replace a version of it; StorageError unless one of each wins."""
    key = f".doctor/{uuid.uuid4().hex}"
    try:
        counts = RaceCounts(_winners(lambda text: bucket.create(key, text)), 0)
        if (stored := bucket.read(key)) is not None:
            counts = RaceCounts(counts.created, _winners(lambda text: bucket.replace(key, text, stored.version)))
    finally:
        bucket.delete(key)
    if (counts.created, counts.replaced) != (1, 1):
        problem = (
            f"of {RACERS} concurrent writes, {counts.created} created one object and {counts.replaced} replaced one "
            "version of it, and each should be 1"
        )
        raise StorageError(located(bucket.address, None, problem, _REMEDY))
    return counts


def check_locks(folder: Path) -> None:
    """Take a lock twice in a folder of this machine or of a file server; raise StorageError if both succeed."""
    path = folder / f".doctor-{uuid.uuid4().hex}"
    with storage_errors(path), path.open("a") as first, path.open("a") as second:
        path.unlink()
        fcntl.flock(first, fcntl.LOCK_EX)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    problem = "locks are not kept here, so two processes could make the same result at once"
    raise StorageError(located(folder, None, problem, "Mount the folder with locks, or set DISENT_HOME to another"))


def _winners(write: Callable[[bytes], Version | None]) -> int:
    """Count the writes that succeed, each in its own thread with its own text."""
    start = threading.Barrier(RACERS)

    def race(text: bytes) -> bool:
        start.wait()
        return write(text) is not None

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(race, [uuid.uuid4().hex.encode() for _ in range(RACERS)]))

"""Try whether a home keeps what results stand on: of writes that race in a bucket, one passes; a folder has locks."""

import fcntl
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from disent_core.errors import StorageError, located
from disent_core.storage.atomic import storage_errors
from disent_core.storage.objects import Bucket, Version

RACERS = 16
_REMEDY = "Results could be lost there: use one with conditional writes: S3, Google Cloud Storage, Azure, R2"


@dataclass(frozen=True)
class Probed:
    """How many of `RACERS` writes at once have created an object, and how many have replaced one version of it."""

    created: int
    replaced: int


def check_bucket(bucket: Bucket) -> Probed:
    """Let writes race to create one object, and to replace one version of it.

    Raises:
        StorageError: if two of them pass, or none does, or the store fails.
    """
    key = f".doctor/{uuid.uuid4().hex}"
    try:
        probed = Probed(_passed(lambda text: bucket.create(key, text)), 0)
        found = bucket.read(key)
        if found is not None:
            version = found.version
            probed = Probed(probed.created, _passed(lambda text: bucket.replace(key, text, version)))
    finally:
        bucket.delete(key)
    if (probed.created, probed.replaced) != (1, 1):
        problem = (
            f"of {RACERS} writes at once, {probed.created} have created one object and {probed.replaced} have replaced "
            "one version of it, and each should be 1"
        )
        raise StorageError(located(bucket.address, None, problem, _REMEDY))
    return probed


def check_locks(folder: Path) -> None:
    """Take a lock twice in a folder of this machine, or of a file server.

    Raises:
        StorageError: if the second one is not refused, or the folder can't be written.
    """
    path = folder / f".doctor-{uuid.uuid4().hex}"
    with storage_errors(path), path.open("a") as first, path.open("a") as second:
        path.unlink()
        fcntl.flock(first, fcntl.LOCK_EX)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    problem = "locks are not kept here, so two processes could make one result at once"
    raise StorageError(located(folder, None, problem, "Mount the folder with locks, or set DISENT_HOME to another"))


def _passed(write: Callable[[bytes], Version | None]) -> int:
    """How many of the writes pass, each from a thread of its own with a text of its own."""
    start = threading.Barrier(RACERS)

    def race(text: bytes) -> bool:
        start.wait()
        return write(text) is not None

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(race, [uuid.uuid4().hex.encode() for _ in range(RACERS)]))

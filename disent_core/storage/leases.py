"""Leases: the right to be the only one who makes a result, for processes that share nothing but a bucket.

Results follow from their inputs, and manifests are replaced only if nobody else has: so a lease only saves work, and
what is correct does not depend on it. A lease is an object that its holder replaces every 15 seconds. Others watch it:
if it stays the same for a minute on their own clock, its holder is gone and one of them takes it, and whoever held it
is refused at its next write. No clocks are compared.
"""

import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace

from disent_core.errors import StorageError, located
from disent_core.storage.objects import Bucket, Version

log = logging.getLogger(__name__)

_LOST = "another process has taken over what this one was making, because it was silent for too long"


@dataclass(frozen=True)
class Pace:
    """How often a lease is renewed, how long it lasts without, and how often others look, in seconds."""

    beat: float = 15.0
    lasts: float = 60.0
    look: float = 1.0


@dataclass(frozen=True)
class _Claim:
    """What a lease says.

    Attributes:
        owner: unique name of its holder, a process or all of a machine; empty if it is free.
        host: machine of its holder, for people.
        fence: how often it was taken so far.
        beat: how often it was renewed; without it, the store could not tell the renewed object from the old one.
    """

    owner: str
    host: str
    fence: int
    beat: int = 0

    @property
    def text(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()


@dataclass
class Lease:
    """A lease that this process holds."""

    bucket: Bucket
    key: str
    claim: _Claim
    version: Version
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_lost: bool = False

    @property
    def fence(self) -> int:
        """How often the lease was taken, with this time."""
        return self.claim.fence

    def renew(self) -> None:
        """Replace the lease.

        Raises:
            StorageError: if another process has taken it, or the store fails.
        """
        with self._lock:
            renewed = replace(self.claim, beat=self.claim.beat + 1)
            version = None if self._is_lost else self.bucket.replace(self.key, renewed.text, self.version)
            if version is None:
                self._is_lost = True
                remedy = "Its result will be there: start the same run again"
                raise StorageError(located(f"{self.bucket.address}/{self.key}", None, _LOST, remedy))
            self.claim, self.version = renewed, version

    def release(self) -> None:
        """Let others take the lease at once; the object stays, so that fences rise."""
        with self._lock, suppress(StorageError):  # then it ends by itself
            if not self._is_lost:
                free = _Claim("", "", self.claim.fence, self.claim.beat + 1)
                self.bucket.replace(self.key, free.text, self.version)


@contextmanager
def leased(bucket: Bucket, key: str, pace: Pace = Pace(), owner: str = "") -> Iterator[Lease]:
    """Hold a lease, which is renewed by a thread; wait while another owner holds it.

    Args:
        bucket: that has it.
        key: of the lease.
        pace: of all who share it.
        owner: name under which it is held. Who comes with the name of its holder takes it at once, and must know that
            the holder is gone. Default: a new one.

    Raises:
        StorageError: if the store fails.
    """
    lease, done = _take(bucket, key, pace, owner or uuid.uuid4().hex), threading.Event()
    thread = threading.Thread(target=_renew, args=(lease, pace.beat, done), daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        done.set()
        thread.join()
        lease.release()


def _renew(lease: Lease, beat: float, done: threading.Event) -> None:
    while not done.wait(beat):
        with suppress(StorageError):  # the next write of a result meets it, or the store is back by then
            lease.renew()


def _take(bucket: Bucket, key: str, pace: Pace, owner: str) -> Lease:
    is_told = False
    seen: Version | None = None
    since = time.monotonic()
    while True:
        found = bucket.read(key)
        last = _Claim("", "", 0) if found is None else _Claim(**json.loads(found.data))
        if found is not None and found.version != seen:
            seen, since = found.version, time.monotonic()
        if last.owner in ("", owner) or time.monotonic() - since >= pace.lasts:
            claim = _Claim(owner, socket.gethostname(), last.fence + 1)
            version = (
                bucket.create(key, claim.text) if found is None else bucket.replace(key, claim.text, found.version)
            )
            if version is not None:
                return Lease(bucket, key, claim, version)
        elif not is_told:
            log.info("%s is being made on %s: waiting for it", key.removesuffix(".lease"), last.host)
            is_told = True
        time.sleep(pace.look)

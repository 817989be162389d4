"""Hold leases: the exclusive right to make a result, among processes that share only a bucket.

Results follow from their inputs, and manifests are replaced only if nobody else has replaced them. So leases only save
work; correctness does not depend on them. A lease is an object that its holder replaces every 15 seconds. Others watch
it: if it is unchanged for a minute on their own clock, the holder is gone, one of them takes the lease, and the former
holder's next write is rejected. No clocks are compared.
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

from disent_core.errors import StorageError, TransientError, located
from disent_core.storage.bucket import Bucket, Version

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """Seconds between renewals of a lease, until an unrenewed one expires, and between checks by those who wait."""

    beat: float = 15.0
    lasts: float = 60.0
    look: float = 1.0


@dataclass(frozen=True)
class _Claim:
    """The content of a lease."""

    owner: str  # unique name of its holder, a process or a whole machine; empty if free
    host: str  # machine of its holder, for messages
    fence: int  # how often it has been taken, this time included
    beat: int = 0  # how often it was renewed, so that a renewed object differs from the old

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

    def renew(self, bucket: Bucket | None = None) -> None:
        """Renew the lease, in its own bucket or in `bucket`, such as a hasty one."""
        with self._lock:
            renewed = replace(self.claim, beat=self.claim.beat + 1)
            version = None
            if not self._is_lost:
                version = (bucket or self.bucket).replace(self.key, renewed.text, self.version)
            if version is None:
                self._is_lost = True
                problem = "another process has taken over this result, because this one did not renew its lease in time"
                remedy = "Its result will be there: start the same run again"
                raise TransientError(located(f"{self.bucket.address}/{self.key}", None, problem, remedy))
            self.claim, self.version = renewed, version

    def release(self) -> None:
        """Let others take the lease at once; the object stays, so that fences increase."""
        with self._lock, suppress(StorageError):  # on failure, the lease expires
            if not self._is_lost:
                free = _Claim("", "", self.claim.fence, self.claim.beat + 1)
                self.bucket.hasty.replace(self.key, free.text, self.version)


@contextmanager
def leased(bucket: Bucket, key: str, pace: Pace = Pace(), owner: str = "", *, is_new: bool = False) -> Iterator[Lease]:
    """Hold a lease, renewed by a thread; wait while another owner holds it.

    A caller with the current owner's name takes the lease at once, and must know that the holder is gone. Without a
    name, the caller gets a new one. If nobody has held the lease yet (`is_new`), it is created without looking for it.
    """
    lease, done = _take(bucket, key, pace, owner or uuid.uuid4().hex, is_new=is_new), threading.Event()

    def renew() -> None:
        while not done.wait(pace.beat):
            with suppress(StorageError):  # if this persists, the next write of a result fails
                lease.renew(bucket.hasty)

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        done.set()
        thread.join()
        lease.release()


def _take(bucket: Bucket, key: str, pace: Pace, owner: str, *, is_new: bool = False) -> Lease:
    is_logged = False
    seen: Version | None = None
    since = time.monotonic()
    while True:
        asked = time.monotonic()
        lease, is_new = None if is_new else bucket.read(key), False
        since += time.monotonic() - asked  # the holder may have waited for the store too
        last = _Claim("", "", 0) if lease is None else _Claim(**json.loads(lease.data))
        if lease is not None and lease.version != seen:
            seen, since = lease.version, time.monotonic()
        if last.owner in ("", owner) or time.monotonic() - since >= pace.lasts:
            claim = _Claim(owner, socket.gethostname(), last.fence + 1)
            version = (
                bucket.create(key, claim.text) if lease is None else bucket.replace(key, claim.text, lease.version)
            )
            if version is not None:
                return Lease(bucket, key, claim, version)
        elif not is_logged:
            log.info("%s is being made on %s: waiting for it", key.removesuffix(".lease"), last.host)
            is_logged = True
        time.sleep(pace.look)

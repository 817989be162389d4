"""Find and delete what killed processes have left in a bucket. What a result needs is never deleted.

Age is measured by the store's own clock. The bytes of a result have a name that is used once: so bytes which no
manifest names, and which are older than any upload takes, are needed by nobody and never will be.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta

from disent_core.storage.objects import Bucket, Listed
from disent_core.storage.remote import MANIFEST, published_in

_BYTES = re.compile(r"(?:.*/)?[0-9a-f]{16}-[0-9a-f]{8}")
_UNFINISHED = ("checkpoints/", "shards/")
"""Keys of what unfinished work keeps to go on: if it is old, the work was given up, or can begin again."""


def leftovers(bucket: Bucket, older: timedelta) -> list[Listed]:
    """Objects that can be deleted: bytes of no result, and old checkpoints and quarantined results.

    Args:
        bucket: with the results of a home.
        older: what has changed more recently is kept.

    Raises:
        StorageError: if the store fails.
    """
    marker = f".gc/{uuid.uuid4().hex}"
    bucket.create(marker, b"")
    try:
        listed = {one.key: one for one in bucket.listed()}
    finally:
        bucket.delete(marker)
    before = listed.pop(marker).modified - older
    old = [one for one in listed.values() if one.modified <= before]
    given_up = [one for one in old if _is_given_up(one.key)]
    # Manifests are read after the listing: what was published meanwhile is not in it.
    needed = set(_needed(bucket, listed.keys() - {one.key for one in given_up}))
    return given_up + [one for one in old if _BYTES.fullmatch(one.key) and one.key not in needed]


def _is_given_up(key: str) -> bool:
    is_unfinished = key.startswith(_UNFINISHED) and key.endswith(MANIFEST)
    return is_unfinished or key.endswith(f".damaged{MANIFEST}") or key.startswith((".doctor/", ".gc/"))


def _needed(bucket: Bucket, keys: set[str]) -> Iterator[str]:
    """Keys of the bytes that manifests name."""
    for key in sorted(keys):
        if key.endswith(MANIFEST) and (found := bucket.read(key)) is not None:
            for version in published_in(found.data):
                yield from version.objects


def delete(bucket: Bucket, found: Sequence[Listed]) -> int:
    """Delete leftovers; returns their bytes.

    Raises:
        StorageError: if the store fails.
    """
    for one in found:
        bucket.delete(one.key)
    return sum(one.bytes for one in found)

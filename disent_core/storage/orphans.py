"""Find and delete orphans: objects that killed processes have left in a bucket. No result loses its bytes.

Age is measured by the store's clock. The bytes of a result have a name that is used once: so bytes that no manifest
names, and that are older than any upload takes, never belong to a result.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta

from disent_core.storage.bucket import Bucket, ListedObject
from disent_core.storage.remote import MANIFEST, published_in

_BYTES = re.compile(r"(?:.*/)?[0-9a-f]{16}-[0-9a-f]{8}")
_UNFINISHED = ("checkpoints/", "shards/")
"""Keys of unfinished work: if it is old, it was abandoned, or can begin again."""


def find_orphans(bucket: Bucket, older: timedelta) -> list[ListedObject]:
    """Objects that can be deleted: bytes of no result, and old checkpoints and quarantined results.

    Args:
        bucket: with the results of a home.
        older: objects that have changed more recently are kept.
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
    # Manifests are read after the listing: what was published meanwhile is not in it.
    needed = set(_needed(bucket, listed.keys() - {object.key for object in abandoned}))
    return abandoned + [object for object in old if _BYTES.fullmatch(object.key) and object.key not in needed]


def _is_abandoned(key: str) -> bool:
    is_unfinished = key.startswith(_UNFINISHED) and key.endswith(MANIFEST)
    return is_unfinished or key.endswith(f".damaged{MANIFEST}") or key.startswith((".doctor/", ".gc/"))


def _needed(bucket: Bucket, keys: set[str]) -> Iterator[str]:
    """Yield the keys of the bytes that manifests name."""
    for key in sorted(keys):
        if key.endswith(MANIFEST) and (manifest := bucket.read(key)) is not None:
            for version in published_in(manifest.data):
                yield from version.objects


def delete_orphans(bucket: Bucket, orphans: Sequence[ListedObject]) -> int:
    """Delete orphans and return their bytes."""
    for orphan in orphans:
        bucket.delete(orphan.key)
    return sum(orphan.bytes for orphan in orphans)

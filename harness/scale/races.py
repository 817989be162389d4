"""Let processes publish results to one bucket at the same time; `scale_faults.py` runs it.

If they publish the same names while others read, no reader may see bytes that nobody wrote, and in the end each result
must match its manifest. If names differ, all processes change the one object that lists them.
"""

import multiprocessing
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path

from disent_core.storage.bucket import Bucket
from disent_core.storage.remote import RemoteHome, attach, delete_orphans, find_orphans
from disent_core.storage.results import manifest_entry, read_result, write_result


def content(number: int) -> bytes:
    """Return the content of a version: 2 to 40 kB, unique to it, from which its number can be read."""
    return f"{number:08}".encode() * random.Random(number).randint(250, 5_000)


def is_whole(data: bytes, publishes: int) -> bool:
    """Return whether these are the bytes of a single version."""
    return data[:8].isdigit() and int(data[:8]) < publishes and data == content(int(data[:8]))


def _attached(address: str, folder: Path) -> Path:
    folder.mkdir()
    attach(RemoteHome(Bucket(address), folder))
    return folder


def _path(home: Path, result: int) -> Path:
    return home / "tables" / "stage" / f"{result}.parquet"


def publish(address: str, folder: Path, numbers: range, results: int) -> int:
    """Publish versions, each of a random result; return how many reads were torn."""
    home, chance, torn = _attached(address, folder), random.Random(numbers.start), 0
    for number in numbers:
        path = _path(home, chance.randrange(results))
        with write_result(path, number=number) as beside:
            beside.write_bytes(content(number))
        if number % 8 == 0:
            torn += not is_whole(read_result(path) or b"", numbers.stop + 10**7)
    return torn


def race(address: str, folder: Path, publishes: int, writers: int, results: int) -> dict[str, int]:
    """Let the writers race; return counts."""
    each = publishes // writers
    work = [
        (address, folder / str(writer), range(writer * each, (writer + 1) * each), results) for writer in range(writers)
    ]
    with multiprocessing.get_context("spawn").Pool(writers) as pool:
        torn = sum(pool.starmap(publish, work))
    home, bucket = _attached(address, folder / "last"), Bucket(address)
    for result in range(results):
        data, entry = read_result(_path(home, result)), manifest_entry(_path(home, result))
        torn += data is None or entry is None or data != content(entry.facts["number"])
    orphans = find_orphans(bucket, timedelta())
    delete_orphans(bucket, orphans)
    kept = Counter(item.key.split("/")[2] for item in bucket.listed() if item.key.count("/") == 3)
    torn += any(count > 3 for count in kept.values())
    return {"published": each * writers, "torn": torn, "replaced": len(orphans)}

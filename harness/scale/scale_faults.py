"""Cause faults beyond one machine, and compare what lineages have in the end with an undisturbed one, to the bit.

    OMP_NUM_THREADS=1 python harness/scale/scale_faults.py --kills-on-ray 100 --outages 5
    OMP_NUM_THREADS=1 python harness/scale/scale_faults.py --requests 50 --publishes 10000 --stores-away 1
    OMP_NUM_THREADS=1 python harness/scale/scale_faults.py --kills-in-a-bucket 60

Ray runs in a network namespace, with two nodes of one processor; Postgres, and S3 by moto, on this machine. One line
for each series says how many faults there were. It ends at the first difference. `make scale-faults` does all of it.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import faults_in_a_bucket
import faults_on_ray
import races
from stores import environment, make_bucket, moto

ON_RAY = dict(zip(("kills_on_ray", "outages"), faults_on_ray.STRIKES, strict=True))
SERIES = {
    "kills_on_ray": "steps killed on Ray; every fifth time, the node of a step",
    "outages": "times that Postgres is away, for 8 and 120 s in turn",
    "requests": "requests to a store broken, of each kind",
    "stores_away": "times that the store is away, for 8 and 120 s, closed and with 503",
    "kills_in_a_bucket": "signals to lineages whose results are in a bucket",
    "publishes": "racing publishes of 4 results by 16 processes",
}


def run(counts: dict[str, int], seed: int) -> Iterator[str]:
    """Cause `counts` faults of each kind; yield a line for each.

    Raises:
        AssertionError: if a lineage does not end like the undisturbed one, or bytes are torn.
    """
    folder = tempfile.mkdtemp(prefix="disent-scale-faults-")  # kept if an error is raised
    if counts["kills_in_a_bucket"]:  # first, as it forks this process, which must not have threads yet
        faults_in_a_bucket.kill(counts["kills_in_a_bucket"], seed)
    if on_ray := {kind: counts[name] for name, kind in ON_RAY.items() if counts[name]}:
        yield from faults_on_ray.run(on_ray, _new(folder, "ray"), seed)
    if counts["requests"]:
        yield faults_in_a_bucket.break_requests(counts["requests"], _new(folder, "requests"), seed)
    for number in range(counts["stores_away"]):
        place = _new(folder, f"away-{number}")
        yield faults_in_a_bucket.take_store_away((8, 120), place, seed + number)
    if counts["publishes"]:
        yield _race(counts["publishes"], _new(folder, "races"))
    shutil.rmtree(folder)


def _new(folder: str, name: str) -> Path:
    (made := Path(folder) / name).mkdir()
    return made


def _race(publishes: int, folder: Path) -> str:
    with moto() as endpoint:
        os.environ |= environment(endpoint)
        counts = races.race(make_bucket(endpoint, "races"), folder, publishes, writers=16, results=4)
    assert not counts["torn"], counts
    return f"racing publishes: {counts['published']}, of which {counts['replaced']} were replaced and none was torn"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in SERIES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=0, metavar="N", help=what)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = vars(parser.parse_args())
    began = time.monotonic()
    print("seed", chosen["seed"])
    for line in run({name: chosen[name] for name in SERIES}, chosen["seed"]):
        print(f"{line}; {time.monotonic() - began:.0f} s since the start", flush=True)

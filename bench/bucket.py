"""Count the requests of a small lineage in a bucket, and its seconds if each request takes a while.

python -m bench.bucket [--delay 0.03] [--workers 2]

The store is moto on loopback, behind a proxy that delays and counts requests. Needs the packages of `make scale-test`.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from unittest import mock

HARNESS = Path(__file__).parents[1] / "harness"
sys.path[:0] = [str(HARNESS), str(HARNESS / "scale")]

import disturbed_runs  # noqa: E402 - lies in the folders above
from remote_projects import RemoteProject  # noqa: E402
from stores import Proxy, environment, make_bucket, moto, through  # noqa: E402

KINDS = {".doctor": "check of the bucket", ".lease": "leases", ".manifest": "manifests", "list-type": "listings"}
BYTES = "bytes"
NEW, AGAIN, STATUS, ELSEWHERE = "first run", "again, nothing changed", "status", "status on another machine"


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="of each request")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()

    def counted(proxy: Proxy, request: BaseHTTPRequestHandler, answer: Callable) -> None:
        counts[next((kind for part, kind in KINDS.items() if part in request.path), BYTES)] += 1
        time.sleep(options.delay)
        through(proxy, request, answer)

    columns = [*KINDS.values(), BYTES]
    print(f"| command | seconds | requests | {' | '.join(columns)} |\n{'| --- ' * (len(columns) + 3)}|")
    with (
        moto() as endpoint,
        Proxy(endpoint, lambda _: counted) as proxy,
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict("os.environ", environment(proxy.address)),
    ):
        project = disturbed_runs.new_lineage(Path(folder), disturbed_runs.SMALLEST)
        remote = RemoteProject(project.folder, f"{make_bucket(endpoint, 'bench')}/home")
        work = ["materialize", "--workers", str(options.workers)]
        for name, command in {NEW: work, AGAIN: work, STATUS: ["status"], ELSEWHERE: ["status"]}.items():
            counts.clear()
            began = time.monotonic()
            machine = remote if name != ELSEWHERE else replace(remote, machine="other")
            result = machine.disent(*command)
            assert result.exit_code == 0, result.output
            seconds, cells = time.monotonic() - began, [str(counts[kind]) for kind in columns]
            print(f"| {name} | {seconds:.1f} | {counts.total()} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

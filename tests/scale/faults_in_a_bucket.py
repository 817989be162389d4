"""Kill lineages whose results are in a bucket, as `tests/end_to_end/faults.py` does those in a folder.

    python tests/scale/stores.py                                                    # S3 on loopback, prints its address
    python tests/scale/faults_in_a_bucket.py --kills 100 --endpoint http://127.0.0.1:PORT

A killed lineage goes on here or, one time in four at its end, on another machine. What the bucket has then, fetched
into an empty folder, must be the results of an undisturbed lineage in a folder, to the bit.
"""

import argparse
import os
import shutil
import uuid

from remote_projects import Fetched, RemoteProject

import bench  # isort: skip - remote_projects says where it is
import faults  # isort: skip
from projects import Project  # isort: skip

from stores import environment, make_bucket

BUCKET = f"faults-{uuid.uuid4().hex}"


class BucketBench(bench.Bench):
    """Disturbed lineages are in a bucket, undisturbed ones in a folder."""

    def fresh(self) -> tuple[Project, Project]:
        project, wanted = super().fresh()
        return RemoteProject(project.folder, f"s3://{BUCKET}/{uuid.uuid4().hex}"), wanted

    def stale(self) -> tuple[Project, Project]:
        project, _ = self.fresh()
        self.run(project)
        bench.edit(project)
        return project, self.edited

    def check(self, project: Project, wanted: Project, fault: str, *, with_history: bool = False) -> None:
        assert isinstance(project, RemoteProject)
        if self.chance.random() < 0.25:
            shutil.rmtree(project.home)
        self.run(project)
        assert bench.unfinished_runs(project) == [], f"{fault}: runs that have no end"
        fetched = Fetched(project.folder, project.address)
        assert bench.in_a_process(fetched.fetch)
        found = self.folder / "found.json"
        assert bench.in_a_process(lambda: bench._record(fetched) or shutil.move(bench._record_of(fetched), found))
        recorded, ignored = bench._record_of(wanted).read_text(), set() if with_history else {"history"}
        both = [bench.json.loads(text) for text in (recorded, found.read_text())]
        if other := {name for name in both[0] | both[1] if both[0].get(name) != both[1].get(name)} - ignored:
            raise AssertionError(f"{fault}: {len(other)} differences\n" + "\n".join(sorted(other)[:10]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--endpoint", required=True)
    chosen = parser.parse_args()
    os.environ |= environment(chosen.endpoint)
    make_bucket(chosen.endpoint, BUCKET)
    faults.Bench = BucketBench
    faults.run({"kills": chosen.kills}, chosen.seed)

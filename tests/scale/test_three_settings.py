"""A lineage in a bucket, with Postgres, on two nodes of Ray that share no disk: what one machine makes in a folder."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from made_cluster import Cluster, new_cluster
from projects import counts
from remote_projects import Fetched, RemoteProject
from stores import environment, moto

import disturbed_runs as bench  # isort: skip - remote_projects says where it is
import rebuilds  # isort: skip

pytestmark = pytest.mark.timeout(3600)  # Ray takes minutes to start on a machine with other work
FETCH = """
import sys
from pathlib import Path
from remote_projects import Fetched
Fetched(Path(sys.argv[1]), sys.argv[2]).fetch()
"""


@pytest.fixture
def cluster(monkeypatch) -> Iterator[Cluster]:
    """With a store in its network."""
    with new_cluster() as cluster, moto(cluster.network.command()) as endpoint:
        for name, value in environment(endpoint).items():
            monkeypatch.setenv(name, value)
        subprocess.run(cluster.network.command("curl", "-sfX", "PUT", f"{endpoint}/team"), check=True)
        yield cluster


def test_a_lineage_with_ray_bucket_and_postgres_equals_a_local_one(cluster, tmp_path):
    for name in ("local", "team"):
        (tmp_path / name).mkdir()
    local = bench.new_lineage(tmp_path / "local", bench.SMALLEST)
    made = local.materialize()
    team = RemoteProject(bench.new_lineage(tmp_path / "team", bench.SMALLEST).folder, "s3://team/home")
    cluster.node_disk = team.folder / team.machine
    cluster.node_disk.mkdir()
    for wanted in (made, {"made": 0, "up_to_date": 21, "encoded": 0, "steps": 0}):
        command = cluster.start(team)
        out, _ = command.communicate(timeout=3000)
        assert command.returncode == 0, out
        (summary,) = [line for line in out.splitlines(keepends=True) if "tables made" in line]
        assert counts(summary) == wanted
    fetch = cluster.network.command(sys.executable, "-c", FETCH, team.folder, team.address)
    subprocess.run(fetch, env=cluster.environment(team), check=True)
    fetched = Fetched(team.folder, team.address)
    for kind in (rebuilds.tables, rebuilds.heads, rebuilds.embeddings, rebuilds.warehouse):
        assert kind(local.home)
        assert kind(local.home) == kind(fetched.home)

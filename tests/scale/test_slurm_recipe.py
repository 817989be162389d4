"""`deploy/slurm/disent.sbatch` runs a project on a Slurm of this machine: two tasks, each a node of Ray."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_ray import Network
from made_slurm import Slurm, missing

from disent_core.storage.tables import read_info

pytestmark = pytest.mark.timeout(3600)  # Ray takes minutes to start on a machine with other work
ROOT = Path(__file__).parents[2]
CONFIG = """
[[corpora]]
name = "sample"
format = "massive"
path = {corpus!r}
languages = ["en-US", "de-DE"]
limit = 40

[[encoders]]
name = "tiny"
kind = "scratch"

[experiment]
pairs = ["en-de"]
methods = ["raw"]
seeds = [0]
device = "cpu"
"""


@pytest.fixture
def slurm(tmp_path) -> Iterator[Slurm]:
    if missing():
        pytest.fail(f"{', '.join(missing())} missing: apt-get install slurm-wlm munge")
    network = Network()
    slurm = Slurm(network, tmp_path / "slurm", cpus=4)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.close()
        network.close()


def test_two_tasks_of_one_allocation_make_the_tables_of_a_project(slurm, tmp_path):
    config, home, output = tmp_path / "disent.toml", tmp_path / "home", tmp_path / "out"
    config.write_text(CONFIG.format(corpus=str(ROOT / "data/corpora/sample")), encoding="utf-8")
    program = tmp_path / "bin/disent"  # of this checkout, whichever environment has Ray
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m disent_assets.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    settings = {
        "DISENT_CONFIG": str(config), "DISENT_HOME": str(home), "DISENT_MEMORY": "0.1", "HEAD_ADDRESS": "127.0.0.1",
        "PATH": os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), slurm.environment["PATH"]]),
        "PYTHONPATH": str(ROOT), "OBJECT_STORE_BYTES": "80000000",
    }  # fmt: skip
    options = ("--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", "--mem-per-cpu=2000M", "--parsable")
    job = slurm.ask("sbatch", *options, f"--output={output}", ROOT / "deploy/slurm/disent.sbatch", "corpora",
                    "negatives", "targets", environment=settings).strip()  # fmt: skip
    assert job.isdecimal(), job
    until = time.monotonic() + 3000
    while slurm.ask("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T").strip() not in (
        "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT",
    ):  # fmt: skip
        assert time.monotonic() < until, output.read_text()[-3000:]
        time.sleep(1)
    tables = {path.parent.parent.name for path in (home / "tables/targets").rglob("*.parquet")}
    assert {"masked_utterances", "template_pairs"} <= tables, output.read_text()[-3000:]
    assert all(read_info(path) for path in (home / "tables").rglob("*.parquet"))
    ended = slurm.ask("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T")
    assert "COMPLETED" in ended, output.read_text()[-3000:]

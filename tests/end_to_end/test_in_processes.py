"""Steps run in processes of their own, where the environment asks for that."""

import os
import subprocess
import sys

import dagster as dg
import pytest

from disent_assets.settings.instance import dagster_home

pytestmark = pytest.mark.end_to_end

JOB = """
import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository

if __name__ == "__main__":
    repository = ReconstructableRepository.for_module("disent_assets.definitions", "defs")
    with dg.DagsterInstance.get() as instance:
        dg.execute_job(
            repository.get_reconstructable_job("__ASSET_JOB"),
            instance=instance,
            asset_selection=[dg.AssetKey(["corpora", "utterances"])],
            tags={"dagster/partition": "en"},
            raise_on_error=True,
        )
"""


def test_steps_run_in_processes_of_their_own(fresh):
    file = fresh.folder / "job.py"
    file.write_text(JOB, encoding="utf-8")
    settings = {"DAGSTER_HOME": str(dagster_home(fresh.home)), "DISENT_EXECUTOR": "multiprocess"}
    environment = os.environ | fresh.environment | settings
    ran = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with fresh.events() as events:
        assert len(events.of(dg.DagsterEventType.STEP_WORKER_STARTED)) == 1
    status = fresh.disent("status").stdout
    assert "missing corpora/utterances [de]" in status
    assert "missing corpora/utterances [en]" not in status
    counts = fresh.materialize("group:corpora", "--partition", "en")
    assert (counts["made"], counts["up_to_date"]) == (0, 1)


LOST = """
import os
import signal
from pathlib import Path

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository

from disent_assets.lineage import factory
from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Output, Step

factory.LOST_PROCESS = factory.LOST_PROCESS._replace(delay=0.1)


def run(_):
    with Path("attempts").open("a") as file:
        file.write(".")
    if Path("attempts").stat().st_size == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [StepResult(rows=None, content="1", is_reused=False)]


asset = factory.step_asset(Step(made=(Output(("corpora", "texts"), "Texts."),), version="1", make=run))
defs = dg.Definitions([asset], executor=dg.multiprocess_executor)

if __name__ == "__main__":
    job = ReconstructableRepository.for_file(__file__, "defs").get_reconstructable_job("__ASSET_JOB")
    with dg.DagsterInstance.get() as instance:
        dg.execute_job(job, instance=instance, raise_on_error=True)
"""


def test_a_step_whose_process_is_killed_runs_again(tmp_path):
    file = tmp_path / "lost.py"
    file.write_text(LOST, encoding="utf-8")
    environment = os.environ | {"DAGSTER_HOME": str(dagster_home(tmp_path))}
    command = [sys.executable, str(file)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "attempts").read_text() == ".."

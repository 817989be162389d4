"""Steps that are submitted become runs of other processes, and the command that follows them says what came of each."""

import json
import sys
from pathlib import Path

import dagster as dg
import pytest
from projects import new_project
from sqlalchemy.exc import OperationalError

from disent_assets.lineage.refresh import COMMAND, OF_STEPS, refresh_job
from disent_assets.run import dagster_private
from disent_assets.run.plan import plan, steps_of
from disent_assets.run.runner import Report, run_steps
from disent_assets.run.step import DATA_VERSION, FURTHER_TAG, configuration_tag
from disent_assets.run.steps import _STEPS
from disent_assets.settings.environment import open_workspace
from disent_assets.settings.instance import FACE, open_instance
from disent_core.registry import imported

TOY = """
import logging, os, signal
import dagster as dg
from disent_assets.lineage import factory
from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Output, Step

def run(partition):
    logging.getLogger("disent_core").info("texts of %s", partition)
    if partition == "bad":
        raise ValueError("no such text")
    if partition == "lost":
        os.kill(os.getpid(), signal.SIGKILL)
    return [StepResult(rows=None, content=partition, is_reused=False)]

output = Output(("corpora", "texts"), "Texts.")
step = Step(made=(output,), version="1", make=run, partitions=("good", "bad", "lost", "fine"))
texts = factory.step_asset(step)
defs = dg.Definitions(assets=[texts], executor=dg.in_process_executor)
"""


TOY_WITH_CONFIGURATION = """
import dagster as dg
from disent_assets.lineage import factory
from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Output, Step
from disent_assets.run.steps import _STEPS
from disent_assets.settings.environment import open_workspace

workspace = open_workspace()

def run(_):
    (workspace.home / "made").touch()
    return [StepResult(rows=None, content="1", is_reused=False)]

step = Step(made=(Output(("corpora", "texts"), "Texts."),), version="1", make=run)
_STEPS[id(workspace)] = workspace, (step,)
texts = factory.step_asset(step, workspace)
defs = dg.Definitions(assets=[texts], executor=dg.in_process_executor)
"""


class Heard(Report):
    """Remembers the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, step, level, text) -> None:
        self.lines.append(text)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch) -> dg.Definitions:
    return toy_of(TOY, tmp_path, monkeypatch)


def toy_of(source: str, tmp_path: Path, monkeypatch) -> dg.Definitions:
    """A code location with one asset, which this process and its code server load from a file."""
    (tmp_path / "toy.py").write_text(source, encoding="utf-8")
    named = f"load_from: [{{python_file: {{relative_path: toy.py, executable_path: {sys.executable}}}}}]"
    (tmp_path / "workspace.yaml").write_text(named, encoding="utf-8")
    monkeypatch.setenv("DISENT_WORKSPACE", str(tmp_path / "workspace.yaml"))
    monkeypatch.setenv("DISENT_PROFILE", "ray")  # whose dagster.yaml starts runs at once
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("toy", None)
    return imported("toy:defs")


@pytest.fixture
def alone(monkeypatch) -> None:
    """Gives each step a run of its own."""
    monkeypatch.setattr("disent_assets.run.submitted.SHORT_SECONDS", 0.0)


@pytest.fixture
def away_once(monkeypatch) -> list[str]:
    """Lets the database be away when the first step is submitted; tells whether it still has to be."""
    submit, left = dagster_private.submit, ["once"]

    def submit_later(*arguments):
        if left:
            raise OperationalError(left.pop(), {}, ConnectionError())
        return submit(*arguments)

    monkeypatch.setattr(dagster_private, "submit", submit_later)
    return left


def submitted(toy, workspace, instance, report=None):
    steps = steps_of(workspace, toy, [imported("toy:step")])
    return run_steps(
        lambda _: toy, workspace, steps, plan(steps), [], report=report, submitted_by=(instance, {COMMAND: "test"})
    )


def test_each_step_is_a_separate_run_with_its_reported_outcome(toy, tmp_path, alone, away_once):
    workspace, heard = open_workspace({"DISENT_HOME": str(tmp_path / "home")}), Heard()
    with open_instance(workspace.home) as instance:
        result = submitted(toy, workspace, instance, report=heard)
        runs = {run.tags["dagster/partition"]: run for run in instance.get_runs()}
    assert away_once == []
    assert {name: run.status.value for name, run in runs.items()} == {
        "good": "SUCCESS",
        "bad": "FAILURE",
        "lost": "FAILURE",
        "fine": "SUCCESS",
    }
    assert all(run.tags[COMMAND] == "test" and not FACE.items() <= run.tags.items() for run in runs.values())
    failed = {step.partition: reason for step, reason in result.failed.items()}
    assert failed.keys() == {"bad", "lost"}
    assert failed["bad"].startswith("ValueError: no such text (")
    assert "signal 9" in failed["lost"]
    assert result.summary(0).startswith("2 tables made, 0 up to date")
    assert {"texts of good", "texts of bad", "texts of lost"} <= set(heard.lines)


def test_short_steps_share_a_run_and_are_resubmitted_alone_if_lost(toy, tmp_path):
    workspace, heard = open_workspace({"DISENT_HOME": str(tmp_path / "home")}), Heard()
    with open_instance(workspace.home) as instance:
        result = submitted(toy, workspace, instance, report=heard)
        shared, *alone = reversed([run.tags for run in instance.get_runs()])
        versions = instance.event_log_storage.get_latest_tags_by_partition(
            dg.AssetKey(["corpora", "texts"]), dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION]
        )
    assert (shared["dagster/partition"], json.loads(shared[FURTHER_TAG])) == ("good", ["bad", "lost", "fine"])
    assert [run["dagster/partition"] for run in alone] == ["bad", "lost", "fine"]
    failed = {step.partition: reason for step, reason in result.failed.items()}
    assert failed.keys() == {"bad", "lost"}
    assert failed["bad"].startswith("ValueError: no such text (")
    assert "signal 9" in failed["lost"]
    assert result.summary(0).startswith("2 tables made, 0 up to date")
    assert {name: version[DATA_VERSION] for name, version in versions.items()} == {"good": "good", "fine": "fine"}


def test_a_failed_step_in_a_shared_run_does_not_stop_others(tmp_path, monkeypatch):
    toy = toy_of(TOY.replace('"bad", "lost", "fine"', '"bad", "fine"'), tmp_path, monkeypatch)
    workspace, heard = open_workspace({"DISENT_HOME": str(tmp_path / "home")}), Heard()
    with open_instance(workspace.home) as instance:
        result = submitted(toy, workspace, instance, report=heard)
        shared = instance.get_runs()[-1]
        events = [log.dagster_event for log in instance.all_logs(shared.run_id) if log.is_dagster_event]
        (event,) = [event for event in events if event.is_step_failure]
    assert result.summary(0).startswith("2 tables made, 0 up to date")
    assert {step.partition for step in result.failed} == {"bad"}
    assert event.step_failure_data.user_failure_data.description.startswith("corpora/texts [bad]: ValueError: no such")


def test_a_step_whose_process_loads_another_configuration_refuses_and_writes_nothing(tmp_path, monkeypatch):
    project = new_project(tmp_path)
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    toy = toy_of(TOY_WITH_CONFIGURATION, tmp_path, monkeypatch)
    submit = dagster_private.submit
    was, is_now = "max_epochs = 6", "max_epochs = 7"
    project.configure(was, is_now)
    (loaded,) = configuration_tag(project.workspace.config).values()
    project.configure(is_now, was)
    (submitted_with,) = configuration_tag(project.workspace.config).values()

    def submit_after_an_edit(*arguments):
        project.configure(was, is_now)
        return submit(*arguments)

    monkeypatch.setattr(dagster_private, "submit", submit_after_an_edit)
    with open_instance(project.home) as instance:
        refused = submitted(toy, project.workspace, instance)
        (message,) = refused.failed.values()
        assert message == (
            f"{project.config}: this step was submitted with configuration {submitted_with}, but its process has "
            f"loaded {loaded}. Start the same command again; if that does not help, give every "
            "machine the same file and version of disent"
        )
        assert not (project.home / "made").exists()
        monkeypatch.setattr(dagster_private, "submit", submit)
        done = submitted(toy, project.workspace, instance)
        assert done.failed == {}
        assert (project.home / "made").exists()


def test_a_refresh_submits_its_steps_and_fails_with_what_came_of_them(toy, tmp_path, alone, monkeypatch):
    workspace = open_workspace({"DISENT_HOME": str(tmp_path / "home")})
    monkeypatch.setitem(_STEPS, id(workspace), (workspace, (imported("toy:step"),)))
    job = refresh_job(lambda _: toy, toy, workspace, workers=2, submits=True)

    def refreshed(instance: dg.DagsterInstance) -> tuple[dict[str, str], str]:
        """Status of the runs that it has submitted, by partition, and what it says."""
        before = {run.run_id for run in instance.get_runs()}
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        (failed,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
        runs = [run for run in instance.get_runs(dg.RunsFilter(tags=OF_STEPS)) if run.run_id not in before]
        runs = [run for run in runs if run.job_name != "refresh"]
        message = failed.step_failure_data.user_failure_data.description
        return {run.tags["dagster/partition"]: run.status.value for run in runs}, message

    with open_instance(workspace.home) as instance:
        statuses, message = refreshed(instance)
        assert statuses == {"good": "SUCCESS", "bad": "FAILURE", "lost": "FAILURE", "fine": "SUCCESS"}
        assert "corpora/texts [bad]: ValueError: no such text" in message
        assert "corpora/texts [lost]: " in message

"""What we rely on of Dagster's private parts: one test for each, to read first when a new Dagster fails here."""

import ast
import sys
from pathlib import Path

import dagster as dg

from disent_assets.run import dagster_private
from disent_assets.run.dagster_private import LOCATION, ORIGIN, prepare_runs, step_function

ROOT = Path(__file__).parents[2]


@dg.op
def _step() -> None: ...


@dg.job
def _job() -> None:
    _step()


def test_at_most_eight_private_imports_all_in_one_module():
    importers = []
    for path in (
        file for package in ("disent", "disent_core", "disent_assets") for file in (ROOT / package).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("dagster._", "dagster_shared")):
                importers.append(path.name)
    assert set(importers) == {"dagster_private.py"}
    assert len(importers) <= 8


def test_in_process_runs_have_the_code_location_as_origin_and_capture_no_output():
    with dg.DagsterInstance.ephemeral() as instance:
        prepare_runs(instance, "refresh")
        result = _job.execute_in_process(instance=instance)
        run = instance.get_run_by_id(result.run_id)
        assert type(instance.compute_log_manager).__name__ == "NoOpComputeLogManager"
    assert run is not None
    assert run.remote_job_origin is not None
    assert run.remote_job_origin.repository_origin == ORIGIN
    assert ORIGIN.code_location_origin.location_name == LOCATION


def test_events_of_a_run_share_an_engine_per_database(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        prepare_runs(instance, "refresh")
        result = _job.execute_in_process(instance=instance)
        created = sys.modules[type(instance.event_log_storage).__module__].create_engine
        ours = {url for url in created.engines if str(tmp_path) in url}
        assert len(ours) == 2  # the run's database, and the index of all runs
        assert len(instance.all_logs(result.run_id)) > len(ours)


def test_the_function_of_an_asset_can_be_called_with_any_context():
    @dg.asset
    def with_context(context: dg.AssetExecutionContext) -> str:
        return f"of {context}"

    @dg.asset
    def without() -> str:
        return "plain"

    assert step_function(with_context)("mine") == "of mine"
    assert step_function(without)("mine") == "plain"


def test_a_daemon_that_never_ran_is_not_alive():
    with dg.instance_for_test() as instance:
        assert not dagster_private.is_daemon_alive(instance, dagster_private.QUEUE_DAEMON)


def test_a_run_is_submitted_from_a_code_location(tmp_path):
    (tmp_path / "toy.py").write_text("import dagster as dg\n\n@dg.asset\ndef toy(): ...\n", encoding="utf-8")
    file = tmp_path / "workspace.yaml"
    file.write_text(f"load_from:\n  - python_file: {{relative_path: {tmp_path / 'toy.py'}}}\n", encoding="utf-8")
    overrides = {"run_launcher": {"module": "dagster._core.test_utils", "class": "MockedRunLauncher"}}
    with dg.instance_for_test(overrides=overrides) as instance:
        with dagster_private.code_locations(instance, file) as locations:
            context = locations.create_request_context()
            assert dagster_private.load_errors(context) == []
            run = dagster_private.submit(instance, locations, context, [dg.AssetKey("toy")], {"a": "b"})
        submitted = instance.get_run_by_id(run)
    assert submitted is not None
    assert submitted.asset_selection == {dg.AssetKey("toy")}
    assert submitted.tags["a"] == "b"


def test_dagster_dev_is_a_command_that_starts_its_processes_by_a_function():
    dev = dagster_private.dev_module()
    assert dev.dev_command.name == "dev"
    assert callable(dev.open_ipc_subprocess)

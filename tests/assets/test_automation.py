"""What starts a refresh, for every configuration; what the sensors do is in `test_sensors.py`."""

import dagster as dg
import pytest
from click.testing import CliRunner

from disent.home import PROJECT
from disent_assets.cli import main
from disent_assets.definitions import build
from disent_assets.lineage.refresh import automated, definitions_signature
from disent_assets.settings.environment import RunSettings, open_workspace, run_settings, shard_backend
from disent_core.errors import ConfigError
from disent_core.shards.backend import ShardBackend


@pytest.mark.parametrize(("name", "alerts"), [("disent.toml", None), ("configs/sample_all.toml", "http://127.0.0.1:9")])
def test_the_refresh_job_has_sensors_schedules_and_optional_alerts(name, alerts, tmp_path):
    workspace = open_workspace({"DISENT_CONFIG": str(PROJECT / name), "DISENT_HOME": str(tmp_path)})
    repository = automated(build, workspace, RunSettings("in_process", alerts=alerts)).get_repository_def()
    sensors = {"start_refresh", "load_changed_configuration", *(["alert", "alert_of_regressions"] if alerts else [])}
    assert {sensor.name for sensor in repository.sensor_defs} == sensors
    schedules = {schedule.job_name: schedule.default_status for schedule in repository.schedule_defs}
    assert schedules == {"refresh": dg.DefaultScheduleStatus.RUNNING}
    assert all(map(repository.has_job, schedules))


def test_only_the_warehouse_has_a_freshness_policy(tmp_path):
    graph = build(open_workspace({"DISENT_HOME": str(tmp_path)})).resolve_asset_graph()
    policies = {key.to_user_string(): graph.get(key).freshness_policy for key in graph.get_all_asset_keys()}
    (name, policy), *more = [(name, policy) for name, policy in policies.items() if policy is not None]
    assert (name, more) == ("warehouse/database", [])
    assert policy.fail_window.to_timedelta().total_seconds() == 26 * 3600


def test_the_signature_depends_on_keys_partitions_and_code_version():
    def definitions(code: str, names: list[str]) -> dg.Definitions:
        @dg.asset(code_version=code, partitions_def=dg.StaticPartitionsDefinition(names))
        def table() -> None: ...

        return dg.Definitions(assets=[table])

    first = definitions_signature(definitions("1", ["de"]))
    assert definitions_signature(definitions("1", ["de"])) == first
    others = (definitions("2", ["de"]), definitions("1", ["de", "en"]))
    assert len({first, *map(definitions_signature, others)}) == 3


@pytest.mark.parametrize("wrong", ["spark", "processes:", "processes:0", "processes:x", "ray:2"])
def test_an_unknown_shard_backend_is_refused(wrong):
    with pytest.raises(ConfigError, match=f"DISENT_SHARDS must be one of .*, got '{wrong}'"):
        shard_backend({"DISENT_SHARDS": wrong})


@pytest.mark.parametrize(("profile", "usual"), [("", "inline"), ("k8s", "inline"), ("ray", "ray"), ("slurm", "ray")])
def test_the_shard_backend_defaults_to_the_one_of_the_profile(profile, usual):
    engines = {"": ShardBackend(usual), "ray": ShardBackend("ray"), "processes:3": ShardBackend("processes", 3)}
    for named, engine in engines.items():
        assert shard_backend({"DISENT_PROFILE": profile, "DISENT_SHARDS": named}) == engine


@pytest.mark.parametrize("workers", ["0", "two"])
def test_an_invalid_number_of_workers_is_refused(workers):
    with pytest.raises(ConfigError, match="DISENT_WORKERS"):
        run_settings({"DISENT_WORKERS": workers})
    result = CliRunner().invoke(main, ["materialize"], env={"DISENT_WORKERS": workers})
    expected = f"disent: DISENT_WORKERS must be an integer >= 1, got '{workers}'\n"
    assert (result.exit_code, result.stderr) == (2, expected)

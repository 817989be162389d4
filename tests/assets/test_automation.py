"""What starts a refresh, for every configuration; what the sensors do is in `test_sensors.py`."""

import dagster as dg
import pytest

from disent.home import PROJECT
from disent_assets.definitions import build
from disent_assets.lineage.refresh import automated, definitions_signature
from disent_assets.settings.environment import RunSettings, open_workspace, run_settings, shard_backend
from disent_core.errors import ConfigError
from disent_core.shards.backend import ShardBackend

IN_PROCESS = RunSettings("in_process")


@pytest.mark.parametrize("name", [path.name for path in (PROJECT / "configs").glob("*.toml")])
def test_every_configuration_has_the_job_its_sensors_and_the_schedule(name, tmp_path):
    workspace = open_workspace({"DISENT_CONFIG": str(PROJECT / "configs" / name), "DISENT_HOME": str(tmp_path)})
    repository = automated(build, workspace, IN_PROCESS).get_repository_def()
    assert {sensor.name for sensor in repository.sensor_defs} == {"start_refresh", "load_changed_configuration"}
    schedules = {schedule.job_name: schedule.default_status for schedule in repository.schedule_defs}
    assert schedules == {"refresh": dg.DefaultScheduleStatus.RUNNING}
    assert all(map(repository.has_job, schedules))


def test_the_nightly_refresh_looks_at_everything(tmp_path):
    repository = automated(build, open_workspace({"DISENT_HOME": str(tmp_path)}), IN_PROCESS).get_repository_def()
    tick = repository.get_schedule_def("refresh_at_night").evaluate_tick(dg.build_schedule_context())
    requests = tick.run_requests or []
    (request,) = requests
    assert request.run_config["ops"]["make_what_is_stale"]["config"]["everything"] is True


def test_there_are_alerts_only_with_an_address(tmp_path):
    settings = RunSettings("in_process", alerts="http://127.0.0.1:9")
    definitions = automated(build, open_workspace({"DISENT_HOME": str(tmp_path)}), settings)
    assert "alert" in {sensor.name for sensor in definitions.get_repository_def().sensor_defs}


def test_only_the_warehouse_has_a_freshness_policy(tmp_path):
    graph = build(open_workspace({"DISENT_HOME": str(tmp_path)})).resolve_asset_graph()
    policies = {key.to_user_string(): graph.get(key).freshness_policy for key in graph.get_all_asset_keys()}
    (name, policy), *more = [(name, policy) for name, policy in policies.items() if policy is not None]
    assert (name, more) == ("warehouse/database", [])
    assert policy.fail_window.to_timedelta().total_seconds() == 26 * 3600


def test_the_signature_is_that_of_keys_partitions_and_code():
    def definitions(code: str, names: list[str]) -> dg.Definitions:
        @dg.asset(code_version=code, partitions_def=dg.StaticPartitionsDefinition(names))
        def table() -> None: ...

        return dg.Definitions(assets=[table])

    first = definitions_signature(definitions("1", ["de"]))
    assert definitions_signature(definitions("1", ["de"])) == first
    others = (definitions("2", ["de"]), definitions("1", ["de", "en"]))
    assert len({first, *map(definitions_signature, others)}) == 3


@pytest.mark.parametrize("wrong", ["spark", "processes:", "processes:0", "processes:-1", "processes:x", "ray:2"])
def test_an_engine_of_shards_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigError, match=f"DISENT_SHARDS must be one of .*, got '{wrong}'"):
        shard_backend({"DISENT_SHARDS": wrong})


@pytest.mark.parametrize(("profile", "usual"), [("", "inline"), ("k8s", "inline"), ("ray", "ray"), ("slurm", "ray")])
def test_the_engine_of_shards_is_that_of_the_profile_unless_another_is_named(profile, usual):
    engines = {"": ShardBackend(usual), "ray": ShardBackend("ray"), "processes:3": ShardBackend("processes", 3)}
    for named, engine in engines.items():
        assert shard_backend({"DISENT_PROFILE": profile, "DISENT_SHARDS": named}) == engine


@pytest.mark.parametrize("workers", ["0", "-1", "two", "1.5"])
def test_a_number_of_workers_that_is_none_is_refused(workers):
    with pytest.raises(ConfigError, match="DISENT_WORKERS"):
        run_settings({"DISENT_WORKERS": workers})

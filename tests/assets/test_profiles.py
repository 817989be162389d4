"""Where steps run is said by the environment; without it, nothing is different from one machine."""

import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml
from sqlalchemy.exc import OperationalError

from disent_assets.definitions import build
from disent_assets.run.resources import Launch, requests
from disent_assets.run.submitted import Submitted
from disent_assets.settings import profiles
from disent_assets.settings.environment import (
    VARIABLES,
    code_locations,
    database,
    described_variables,
    is_local,
    open_workspace,
    passed_on,
    profile_of,
    run_settings,
    step_share,
)
from disent_assets.settings.instance import dagster_home, open_instance, settings_folder
from disent_assets.settings.profiles import connect, dagster_settings, for_cluster, retried
from disent_core.errors import ConfigError, DisentError
from disent_core.lineage.state import StepRecord, write_record
from disent_core.storage.patience import PATIENCE_SECONDS, Patience

PACKAGES = Path(__file__).resolve().parents[2]
POSTGRES = "postgresql+psycopg2://me:secret@host/runs"


def test_steps_run_on_this_machine_with_default_settings_unless_the_environment_says_otherwise(tmp_path):
    assert (profile_of({}), is_local({}), run_settings({}).profile) == ("local", True, "local")
    assert (profile_of({"DISENT_PROFILE": "slurm"}), is_local({"DISENT_PROFILE": "ray"})) == ("slurm", False)
    assert (code_locations({}).name, step_share({})) == ("workspace.yaml", (1, 1))
    assert code_locations({"DISENT_WORKSPACE": str(tmp_path / "own.yaml")}) == tmp_path / "own.yaml"


@pytest.mark.parametrize(("ask", "variable", "text", "message"), [
    (profile_of, "DISENT_PROFILE", "spark", "one of local, ray, k8s, slurm, got 'spark'"),
    (database, "DISENT_POSTGRES", "postgresql://host/runs", r"an address that begins with postgresql\+psycopg2://[^,]*$"),
    (database, "DISENT_POSTGRES", "postgresql+psycopg2://me:a@b:c#d?@host/d", r"an address .* as %2F %40 %3A %23 %3F$"),
    (step_share, "DISENT_GPU", "one", "a number >= 0, got 'one'"),
    (step_share, "DISENT_GPU", "-1", "a number >= 0, got '-1'"),
    (step_share, "DISENT_MEMORY", "nan", "a number > 0, got 'nan'"),
    (step_share, "DISENT_MEMORY", "0", "a number > 0, got '0'"),
])  # fmt: skip
def test_an_invalid_variable_is_refused(ask, variable, text, message):
    with pytest.raises(ConfigError, match=f"^{variable} must be {message}"):
        ask({variable: text})


def test_a_cluster_gets_the_settings_without_secrets():
    environment = {"DISENT_POSTGRES": POSTGRES, "DISENT_ALERTS": "http://x/token", "DISENT_HOME": "/x", "HOME": "/y"}
    assert passed_on(environment) == ["PATH", "DISENT_HOME"]


@pytest.mark.parametrize(("profile", "has_queue"), [("local", True), ("ray", False), ("slurm", False), ("k8s", False)])
@pytest.mark.parametrize("address", [None, POSTGRES])
def test_a_new_dagster_yaml_fits_the_profile_and_contains_no_password(monkeypatch, profile, has_queue, address):
    monkeypatch.setenv("DISENT_PROFILE", profile)
    monkeypatch.setenv("DISENT_POSTGRES", address or "")
    text = dagster_settings()
    settings = yaml.safe_load(text)
    assert ("run_queue" in settings, "run_coordinator" in settings) == (has_queue, not has_queue)
    assert settings.get("storage") == (address and {"postgres": {"postgres_url": {"env": "DISENT_POSTGRES"}}})
    assert "secret" not in text


def test_cluster_profiles_start_runs_without_a_run_queue(tmp_path, monkeypatch):
    monkeypatch.setenv("DISENT_PROFILE", "ray")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with open_instance(tmp_path) as instance:
        assert type(instance.run_coordinator).__name__ == "SyncInMemoryRunCoordinator"


def test_cluster_profiles_use_the_dagster_home_of_the_user(tmp_path, monkeypatch):
    users_home = tmp_path / "own"
    users_home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(users_home))
    assert settings_folder(tmp_path / "home") == tmp_path / "home" / "dagster"
    monkeypatch.setenv("DISENT_PROFILE", "k8s")
    assert settings_folder(tmp_path / "home") == users_home
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"^DAGSTER_HOME must be a folder that exists"):
        settings_folder(tmp_path / "home")
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home(tmp_path / "other")))  # another command has set it
    assert settings_folder(tmp_path / "home") == tmp_path / "home" / "dagster"


def test_submitting_to_a_queue_without_a_daemon_is_refused(tmp_path):
    with (
        open_instance(tmp_path) as instance,
        pytest.raises(DisentError, match="Delete it, and this profile writes its own"),
    ):
        Submitted(open_workspace({"DISENT_HOME": str(tmp_path)}), {}, instance, {}, 1, lambda *_: None, {})


# --- what a step asks for ---------------------------------------------------------------------------------


def made(workspace):
    assets = [asset for asset in build(workspace).assets or () if isinstance(asset, dg.AssetsDefinition)]
    return [asset for asset in assets if asset.is_materializable]


def asked_of_ray(tmp_path, device: str = "auto") -> dict[str, dict]:
    workspace = open_workspace({"DISENT_HOME": str(tmp_path)})
    object.__setattr__(workspace.config.experiment, "device", device)
    return {
        asset.key.to_user_string() if len(asset.keys) == 1 else asset.op.name: json.loads(
            asset.op.tags["dagster-ray/config"]
        )
        for asset in made(workspace)
    }


def test_every_step_requests_cpu_and_memory_but_only_encoding_and_training_on_a_gpu_request_one(tmp_path):
    asked = asked_of_ray(tmp_path)
    assert len(asked) > 15
    assert {of_step["num_cpus"] for of_step in asked.values()} == {1}
    assert all(of_step["memory"] >= 2 << 30 for of_step in asked.values())
    with_gpu = {name for name, of_step in asked.items() if of_step.get("num_gpus")}
    assert {"heads/scratch/dream_head", "embeddings/scratch/scratch_encoder"} <= with_gpu
    assert not with_gpu & {"corpora/utterances", "evaluation/scratch/dream_metrics", "warehouse/database"}
    assert not with_gpu & {"heads/scratch/facet_head", "heads/scratch/centered_head"}  # computed on the CPU


def test_steps_request_the_configured_gpu_share_and_none_on_cpu(tmp_path, monkeypatch):
    assert not any("num_gpus" in asked for asked in asked_of_ray(tmp_path, device="cpu").values())
    monkeypatch.setenv("DISENT_GPU", "0.25")
    assert asked_of_ray(tmp_path)["heads/scratch/dream_head"]["num_gpus"] == 0.25


def test_a_cluster_counts_gpus_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("disent_assets.lineage.factory._has_gpu", lambda: True)
    workspace = open_workspace({"DISENT_HOME": str(tmp_path)})
    for profile, expected in (("local", {None, "gpu"}), ("ray", {None})):
        monkeypatch.setenv("DISENT_PROFILE", profile)
        assert {asset.op.pool for asset in made(workspace)} == expected


VECTORS, TEXTS = ("embeddings", "scratch", "scratch_vectors"), ("targets", "masked_utterances")


def launch(tags: dict[str, str], attempts: int, step: str) -> SimpleNamespace:
    """What Dagster knows of a launch of a step."""
    state = SimpleNamespace(get_retry_state=lambda: SimpleNamespace(get_attempt_count={step: attempts}.get))
    return SimpleNamespace(
        step_tags={step: {tag: json.dumps(value) for tag, value in requests(1.0, 8.0).items()}},
        dagster_run=SimpleNamespace(tags=tags),
        execute_step_args=SimpleNamespace(known_state=state),
    )


def test_the_memory_request_doubles_after_each_lost_attempt(tmp_path, monkeypatch):
    monkeypatch.setenv("DISENT_MEMORY_LIMIT", "100")
    workspace = open_workspace({"DISENT_HOME": str(tmp_path)})
    asked = []
    handler = SimpleNamespace(launch_step=lambda context: asked.append((context.step_tags, context.dagster_run)))
    cluster = dg.executor(name="cluster")(lambda _: SimpleNamespace(_step_handler=handler, _pop_events=list))
    of_cluster = for_cluster(cluster, partial(Launch, workspace, {"vectors": VECTORS}))
    of_cluster.executor_creation_fn(None)._step_handler.launch_step(launch({}, 0, "refresh"))

    def asked_for(attempts: int, *partitions: str) -> float:
        tags = {"dagster/partition": partitions[0], "disent/further_partitions": json.dumps(partitions[1:])}
        handler.launch_step(launch(tags, attempts, "vectors"))
        step_tags, run = asked.pop()
        assert run.tags == tags
        ray, k8s = (json.loads(step_tags["vectors"][tag]) for tag in ("dagster-ray/config", "dagster-k8s/config"))
        memory = ray["memory"] / 2**30
        limits = k8s["container_config"]["resources"]["limits"]
        assert limits == {"memory": f"{memory * 1024:.0f}Mi", "nvidia.com/gpu": "1"}
        return memory

    assert asked.pop()[0] == launch({}, 0, "refresh").step_tags
    assert [asked_for(attempts, "en") for attempts in range(5)] == [8, 16, 32, 64, 100]
    for rows, name in ((10_000_000, "en"), (1000, "de")):
        write_record(workspace, TEXTS, name, StepRecord("", {}, cost={"rows": rows, "peak_memory": None}))
    assert (asked_for(0, "en"), asked_for(1, "en"), asked_for(0, "de"), asked_for(0, "de", "en")) == (21, 42, 8, 21)
    write_record(workspace, VECTORS, "de", StepRecord("", {}, cost={"rows": None, "peak_memory": 24 << 30}))
    assert asked_for(0, "de") == 30
    monkeypatch.setenv("DISENT_MEMORY", "0.5")
    assert asked_for(0, "de") == 15
    monkeypatch.delenv("DISENT_MEMORY_LIMIT")
    assert asked_for(0, "de") == 8


# --- a database that is away ------------------------------------------------------------------------------


def away(times: int):
    """A question that the database answers only after so many errors."""
    left = [None] * times

    def ask(word: str) -> str:
        if left:
            left.pop()
            raise OperationalError("select", {}, Exception("connection refused"))
        return word

    return ask


def test_a_database_query_is_retried_until_success_or_timeout():
    pauses = []
    assert retried(away(120), pause=pauses.append)("here") == "here"
    assert len(pauses) == 120
    clock = iter([0.0, 1.0, PATIENCE_SECONDS + 1])
    with pytest.raises(OperationalError):
        retried(away(3), clock=lambda: next(clock), pause=lambda _: None)("here")


def database_away(times: int) -> SimpleNamespace:
    """What SQLAlchemy knows of a database that refuses so many connections after the first one."""
    refusals = iter([False, *[True] * times])

    def connect(address: str) -> str:
        if next(refusals, False):
            raise ConnectionError(address)
        return address

    return SimpleNamespace(
        name="postgresql", loaded_dbapi=SimpleNamespace(connect=connect, OperationalError=ConnectionError)
    )


def test_a_process_waits_for_its_database_only_after_a_first_connection():
    pauses, away = [], database_away(120)
    waits = Patience("database", pause=pauses.append)
    assert [connect(waits, away, ["here"], {}) for _ in range(2)] == ["here", "here"]
    assert len(pauses) == 120
    away = database_away(1)
    away.loaded_dbapi.connect("by another process")
    with pytest.raises(ConnectionError):
        connect(Patience("database", pause=pauses.append), away, ["here"], {})
    assert connect(waits, SimpleNamespace(name="sqlite"), [], {}) is None


def test_a_missing_driver_is_one_line(monkeypatch):
    monkeypatch.setattr(profiles, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"^DISENT_POSTGRES needs an extra: pip install .*postgres\]'$"):
        profiles.wait_for_database.__wrapped__()


def test_the_table_of_variables_equals_those_read_by_the_code():
    files = [path for package in ("disent", "disent_assets") for path in (PACKAGES / package).rglob("*.py")]
    read = {name for path in files for name in re.findall(r'"(DISENT_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    assert read == {*VARIABLES}
    assert all(f"| `{name}` |" in described_variables() for name in VARIABLES)

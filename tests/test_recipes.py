"""The recipes of deploy/ name what is there, and keep their promises of security. tests/scale/ runs them."""

import re
import tomllib
from pathlib import Path

import yaml

from disent_assets.cli import main

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
COMPOSE = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
VALUES = yaml.safe_load((DEPLOY / "helm/values.yaml").read_text(encoding="utf-8"))
CLUSTER = yaml.safe_load((DEPLOY / "kuberay/raycluster.yaml").read_text(encoding="utf-8"))["spec"]
LOCK = (ROOT / "requirements/image.txt").read_text(encoding="utf-8")
LOCKED = dict(re.findall(r"^([\w.-]+)(?:\[\S+\])?==(\S+)", LOCK, re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def words(path: Path, pattern: str) -> set[str]:
    return set(re.findall(pattern, path.read_text(encoding="utf-8")))


# --- names ------------------------------------------------------------------------------------------------


def test_recipes_use_only_existing_settings_and_commands():
    read = words(ROOT / "disent_assets/settings/environment.py", r"DISENT_[A-Z]+")
    for path in FILES:
        assert words(path, r"\bDISENT_[A-Z]+") <= read, path
        assert words(path, r"(?m)(?:^|[`\[]|-- |\.sif )\s*disent,? ([a-z]+)\b") <= {*main.commands}, path


def test_the_image_has_the_packages_of_its_extras_and_the_recipes_name_their_locked_versions():
    packages = [package for extra in ("lineage", "s3", "postgres", "ray", "k8s") for package in EXTRAS[extra]]
    assert {re.split(r"[\[><=]", package)[0] for package in packages} - {"disent-embeddings"} <= {*LOCKED}
    assert str(CLUSTER["rayVersion"]) == LOCKED["ray"]
    text = (DEPLOY / "helm/values.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\b1\.13\.\d+\b", text)) == {LOCKED["dagster"]}


def test_the_settings_of_dagster_are_those_of_the_profiles_with_postgres():
    profiles = ROOT / "disent_assets/settings/profiles"
    of_code = "".join((profiles / name).read_text(encoding="utf-8") for name in ("dagster.yaml", "postgres.yaml"))
    assert (DEPLOY / "compose/dagster.yaml").read_text(encoding="utf-8") == of_code


# --- the image --------------------------------------------------------------------------------------------


def test_the_image_copies_what_is_there_and_not_ignored_and_runs_as_a_user_without_rights():
    lines = (DEPLOY / "image/Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    kept = [line[1:] for line in (DEPLOY / "image/Dockerfile.dockerignore").read_text().split() if line[0] == "!"]
    assert [name for name in [*copied, *kept] if not (ROOT / name).exists() and not [*ROOT.glob(name)]] == []
    assert all(name == "." or Path(name).parts[0] in kept for name in copied)
    assert {"disent", "disent_core", "disent_assets", "sql", "configs", "data/corpora", "pyproject.toml"} <= {*kept}
    assert "\nUSER 1000\n" in (DEPLOY / "image/Dockerfile").read_text(encoding="utf-8")


# --- compose ----------------------------------------------------------------------------------------------


def test_compose_publishes_only_the_proxy_and_web_servers_share_its_loopback():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    servers = [service for service in SERVICES.values() if "disent_assets.web.server" in service.get("command", ())]
    assert len(servers) == 2
    for service in servers:
        assert service["network_mode"] == "service:proxy"
        assert service["command"][service["command"].index("--host") + 1] == "127.0.0.1"


def test_both_proxy_ports_have_tls_and_separate_logins():
    text = (DEPLOY / "compose/proxy.conf").read_text(encoding="utf-8")
    listens, users = re.findall(r"listen (.+);", text), re.findall(r"auth_basic_user_file (.+);", text)
    assert listens == ["8443 ssl", "8444 ssl"]
    assert len(set(users)) == 2
    ours = {service["command"][-1] for service in SERVICES.values() if service.get("network_mode") == "service:proxy"}
    assert set(re.findall(r"proxy_pass http://127\.0\.0\.1:(\d+);", text)) == ours


def test_services_volumes_and_files_in_compose_exist():
    waits = {name for service in SERVICES.values() for name in service.get("depends_on", ())}
    assert waits <= {*SERVICES}
    ready = [name for name in ("ray", "code") if "doctor" in SERVICES[name]["depends_on"]]
    assert ready == ["ray", "code"]
    mounted = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]
    named = {name for name in mounted if not name.startswith((".", "$"))}
    assert named == {*COMPOSE["volumes"]}
    files = {name for name in mounted if name.startswith("./")} - {"./secrets"}
    assert [name for name in files if not (DEPLOY / "compose" / name).is_file()] == []


def test_no_secret_is_written_in_a_recipe():
    text = (DEPLOY / "compose/compose.yaml").read_text(encoding="utf-8")
    assert re.findall(r"(?:PASSWORD|SECRET|TOKEN)\w*:\s*\"?(?!\$\{)\w", text) == []
    secrets = set(re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|TOKEN))(:\?)?", text))
    assert all(must for _, must in secrets)


# --- kubernetes -------------------------------------------------------------------------------------------

CHART = {
    "": "global serviceAccount generatePostgresqlPasswordSecret postgresql dagster-user-deployments runLauncher "
    "dagsterWebserver ingress dagsterDaemon computeLogManager pythonLogs telemetry rabbitmq redis flower",
    "global": "postgresqlSecretName serviceAccountName dagsterHome",
    "postgresql": "enabled postgresqlScheme postgresqlHost postgresqlUsername postgresqlDatabase postgresqlParams",
    "dagster-user-deployments": "enabled enableSubchart deployments",
    "dagster-user-deployments.deployments": "name image dagsterApiGrpcArgs port includeConfigInLaunchedRuns env "
    "envSecrets volumes volumeMounts labels nodeSelector podSecurityContext securityContext resources",
    "runLauncher": "type config",
    "runLauncher.config": "k8sRunLauncher",
    "runLauncher.config.k8sRunLauncher": "imagePullPolicy loadInclusterConfig labels envSecrets runK8sConfig",
    "runLauncher.config.k8sRunLauncher.runK8sConfig": "podSpecConfig containerConfig",
    "dagsterWebserver": "image enableReadOnly service nodeSelector podSecurityContext securityContext readinessProbe",
    "dagsterDaemon": "enabled image env envSecrets volumes volumeMounts nodeSelector podSecurityContext "
    "securityContext runCoordinator runMonitoring runRetries",
    "dagsterDaemon.runCoordinator": "enabled type config",
    "dagsterDaemon.runCoordinator.config": "customRunCoordinator",
}
"""Keys that Dagster's chart has where the recipe sets one, read from its schema and templates once: the schema is not
ours, so it is not here. The chart would refuse or ignore another key."""


def test_the_chart_values_use_only_known_keys():
    for path, keys in CHART.items():
        node = VALUES
        for name in filter(None, path.split(".")):
            node = node[name][0] if isinstance(node[name], list) else node[name]
        assert {*node} <= {*keys.split()}, path


def test_pods_of_the_chart_run_as_a_user_without_rights_on_nodes_of_their_pool():
    (code,) = VALUES["dagster-user-deployments"]["deployments"]
    for pod in (code, VALUES["dagsterWebserver"], VALUES["dagsterDaemon"]):
        assert pod["podSecurityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert pod["nodeSelector"] == {"disent/pool": "cpu"}


def test_the_cluster_has_no_ingress_and_postgres_uses_tls():
    assert VALUES["ingress"] == {"enabled": False}
    assert VALUES["dagsterWebserver"]["service"]["type"] == "ClusterIP"
    assert VALUES["postgresql"]["postgresqlParams"]["sslmode"] in ("require", "verify-ca", "verify-full")
    kinds = {
        document["kind"]
        for path in FILES
        if path.suffix == ".yaml" and path.parent.name in ("helm", "kuberay")
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if "kind" in document
    }
    assert kinds == {"Kustomization", "NetworkPolicy", "RayCluster", "Role", "RoleBinding", "ServiceAccount"}


def test_ray_requires_a_token_and_its_head_runs_no_tasks():
    assert CLUSTER["authOptions"] == {"mode": "token"}
    assert CLUSTER["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
    groups = {group["groupName"]: group for group in CLUSTER["workerGroupSpecs"]}
    assert groups["gpu"]["minReplicas"] == 0
    policy = yaml.safe_load((DEPLOY / "kuberay/network.yaml").read_text(encoding="utf-8"))["spec"]
    assert policy["podSelector"]["matchLabels"] == {"ray.io/cluster": "disent"}
    assert SERVICES["ray"]["environment"]["RAY_AUTH_MODE"] == "token"


def test_only_steps_with_a_gpu_tolerate_nodes_that_may_vanish():
    tolerant = [
        group["groupName"] for group in CLUSTER["workerGroupSpecs"] if "tolerations" in group["template"]["spec"]
    ]
    assert tolerant == ["gpu"]
    assert "tolerations" not in CLUSTER["headGroupSpec"]["template"]["spec"]

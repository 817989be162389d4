"""The processes that the recipe of compose starts, with its own arguments, on loopback and a Postgres of this test."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from made_postgres import Postgres

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RECIPE = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text(encoding="utf-8"))["services"]
NAMES = ("code", "daemon", "webserver", "webserver-read-only")
LOCATION = "{ repositoriesOrError { ... on RepositoryConnection { nodes { location { name } } } } }"
DAEMON = "{ instance { daemonHealth { allDaemonStatuses { healthy required } } } }"


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def command(name: str, ports: Mapping[str, str], folder: Path) -> list[str]:
    """The command of a service, with loopback and free ports in place of the network of compose."""
    changed = {"0.0.0.0": "127.0.0.1", "/deploy/workspace.yaml": str(folder / "workspace.yaml"), **ports}
    program, *arguments = (changed.get(word, word) for word in RECIPE[name]["command"])
    return [str(BIN / program), *arguments]


def end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:  # in the background of a shell SIGINT is ignored, and so Dagster ignores SIGTERM
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def ports(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The services, started as in the recipe; their ports by those of the recipe."""
    folder = Path(tmp_path_factory.mktemp("recipe"))
    database = Postgres(Path("/tmp") / f"disent-recipe-{os.getpid()}")
    ports = {port: free_port() for port in ("4000", "3000", "3001")}
    workspace = (ROOT / "deploy/compose/workspace.yaml").read_text(encoding="utf-8")
    workspace = workspace.replace("host: code", "host: 127.0.0.1").replace("4000", ports["4000"])
    (folder / "workspace.yaml").write_text(workspace, encoding="utf-8")
    (folder / "dagster").mkdir()
    shutil.copy(ROOT / "deploy/compose/dagster.yaml", folder / "dagster")
    environment = {
        **os.environ,
        "DISENT_PROFILE": RECIPE["code"]["environment"]["DISENT_PROFILE"],
        "DISENT_CONFIG": str(ROOT / "disent.toml"),
        "DISENT_HOME": str(folder / "home"),
        "DISENT_POSTGRES": database.address,
        "DAGSTER_HOME": str(folder / "dagster"),
    }
    started: list[subprocess.Popen[bytes]] = []
    database.make()
    database.start()
    try:
        for name in NAMES:
            log = (folder / f"{name}.log").open("wb")
            run = command(name, ports, folder)
            started.append(subprocess.Popen(run, env=environment, stdout=log, stderr=log, cwd=folder))
        yield ports
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            end(process)
        database.stop()
        shutil.rmtree(database.folder)


def ask(port: str, query: str, host: str | None = None) -> tuple[int, dict]:
    """Status and answer of a query, asked as the proxy does."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    headers = {"Content-Type": "application/json", "Host": host or f"127.0.0.1:{port}"}
    connection.request("POST", "/graphql", json.dumps({"query": query}), headers)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if answer.status == 200 else {}


def eventually(port: str, query: str, wanted: str, seconds: float = 240) -> dict:
    until, answer = time.monotonic() + seconds, {}
    while time.monotonic() < until:
        try:
            answer = ask(port, query)[1]
        except OSError:
            answer = {}
        if wanted in json.dumps(answer):
            return answer
        time.sleep(1)
    raise AssertionError(f"{wanted} is not in {answer}")


@pytest.mark.parametrize("port", ["3000", "3001"])
def test_both_web_servers_list_the_code_location(ports, port):
    eventually(ports[port], LOCATION, '"name": "disent"')


def test_the_daemon_is_healthy_through_the_database(ports):
    eventually(ports["3000"], DAEMON, '"healthy": true')


def test_the_web_servers_refuse_other_host_names(ports):
    eventually(ports["3000"], LOCATION, "disent")
    assert ask(ports["3000"], LOCATION, host="disent.example.org")[0] == 403


def test_the_read_only_server_changes_nothing(ports):
    eventually(ports["3001"], LOCATION, "disent")
    mutation = 'mutation { wipeAssets(assetPartitionRanges: [{assetKey: {path: ["x"]}}]) { __typename } }'
    typenames = [ask(ports[port], mutation)[1]["data"]["wipeAssets"]["__typename"] for port in ("3000", "3001")]
    assert typenames[1] == "UnauthorizedError"
    assert typenames[0] != "UnauthorizedError"

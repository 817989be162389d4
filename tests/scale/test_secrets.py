"""Keys, passwords and tokens of the environment are in nothing that disent prints, writes or answers, nor in errors."""

import gzip
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from made_postgres import Postgres
from remote_projects import RemoteProject
from stores import Proxy, environment, refused, through

from disent.home import PROJECT
from disent_core.storage.bucket import Bucket

import disturbed_runs as bench  # isort: skip - remote_projects says where it is

SECRETS = {
    name: f"planted-{name}-zq7wkx" for name in ("key", "store", "password", "token", "hook", "hub", "url", "signature")
}
ODD = "planted/pass@zq7wkx:w#rd?"
"""A password that its user has forgotten to escape."""


def leaks(text: bytes) -> list[str]:
    """Secrets in a text, also escaped ones, and parts of the odd one."""
    parts = ("zq7wkx", quote(ODD, safe=""), "planted/pass", "w#rd", "w%23rd")
    return [part for part in parts if part.encode() in text]


UI = """{ instance { info daemonHealth { allDaemonStatuses { lastHeartbeatErrors { message stack } } } }
  runsOrError { ... on Runs { results { runId status runConfigYaml tags { key value } } } }
  workspaceOrError { ... on Workspace { locationEntries { displayMetadata { key value } locationOrLoadError {
    ... on PythonError { message stack } ... on RepositoryLocation { name } } } }
    ... on PythonError { message stack } } }"""
EVENTS = """{ logsForRun(runId: "%s", limit: 1000) { ... on EventConnection { events { ... on MessageEvent { message }
  ... on ExecutionStepFailureEvent { error { message stack errorChain { error { message stack } } } } } } } }"""
"""What the pages of runs, of the deployment and of its configuration ask."""


@contextmanager
def listening(project: RemoteProject, more: Mapping[str, str], *command: object) -> Iterator[Callable[..., bytes]]:
    """Start a server; yields what asks it for a path, with content and headers, also where the answer is an error."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = project.folder / "server.log"
    words = [sys.executable, "-m", *map(str, command), "--host", "127.0.0.1", "--port", str(port)]
    every = {**os.environ, **project.environment, **more}
    with log.open("wb") as out, subprocess.Popen(words, env=every, cwd=PROJECT, stdout=out, stderr=out) as process:

        def ask(path: str, content: object = None, **headers: str) -> bytes:
            body = None if content is None else json.dumps(content).encode()
            request = Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json", **headers})
            try:
                with urlopen(request) as answer:
                    return answer.read()
            except HTTPError as error:
                return str(error.headers).encode() + error.read()

        try:
            while True:
                assert process.poll() is None, log.read_text()
                try:
                    ask("/")
                    break
                except URLError:
                    time.sleep(0.2)
            yield ask
        finally:
            process.terminate()


def answers_of_ui(project: RemoteProject, more: Mapping[str, str]) -> dict[str, bytes]:
    server = ("disent_assets.web.server", "--read-only", "--workspace", PROJECT / "workspace.yaml")
    with listening(project, more, *server) as ask:
        answers = {"the page of the deployment": ask("/graphql", {"query": UI})}
        asked = json.loads(answers["the page of the deployment"])
        assert "errors" not in asked, asked
        runs = asked["data"]["runsOrError"]["results"]
        assert {"SUCCESS", "FAILURE"} <= {run["status"] for run in runs}
        for run in runs:
            answers[run["runId"]] = ask("/graphql", {"query": EVENTS % run["runId"]})
            answers[f"{run['runId']}, downloaded"] = gzip.decompress(ask(f"/download_debug/{run['runId']}"))
        answers["a query that is none"] = ask("/graphql", {"query": "{ nothing }"})
        answers["a run that is none"] = ask("/graphql", {"query": EVENTS % "nothing"})
    assert any(b"the store denies access" in answer for answer in answers.values())
    return answers


def answers_of_serve(project: RemoteProject, more: Mapping[str, str]) -> dict[str, bytes]:
    texts, index = project.folder / "texts.txt", project.folder / "index"
    texts.write_text("wake me up\nplay jazz\n", encoding="utf-8")
    assert run(project, more, "index", str(texts), str(index))[0] == 0
    token = {"Authorization": f"Bearer {more['DISENT_SERVE_TOKEN']}"}
    with listening(project, more, "disent_assets.cli", "serve", index) as ask:
        asked = [
            ("/", None, {}), ("/", None, token), ("/?q=wake", None, token), ("/?q=%EE%80%80", None, token),
            ("/openapi.json", None, token), ("/nothing", None, token), ("/v1/ready", None, token),
            ("/v1/search", {"queries": ["wake me up"]}, token), ("/v1/search", {"queries": 1}, token),
            ("/v1/search", {"queries": ["wake"]}, {}), ("/", None, {"Authorization": "Bearer no"}),
            ("/v1/classify", {"texts": ["wake"]}, token),
        ]  # fmt: skip
        answers = {
            f"serve {number} {path}": ask(path, content, **headers)
            for number, (path, content, headers) in enumerate(asked)
        }
    assert b'"wake me up"' in answers["serve 7 /v1/search"]
    return answers


def run(project: RemoteProject, more: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command, with its tracebacks."""
    command = [sys.executable, "-m", "disent_assets.cli", "--debug", *arguments]
    every = {**os.environ, **project.environment, **more}
    ran = subprocess.run(command, env=every, cwd=project.folder, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with TemporaryDirectory(prefix="pg") as folder:  # paths of sockets are short
        Path(folder).chmod(0o755)
        server = Postgres(Path(folder) / "postgres")
        server.make()
        server.start()
        yield server
        server.stop()


@pytest.fixture
def project(address, tmp_path) -> RemoteProject:
    return RemoteProject(bench.new_lineage(tmp_path, bench.SMALLEST).folder, address)


@pytest.fixture
def planted(s3) -> dict[str, str]:
    return {
        **environment(s3),
        "AWS_ACCESS_KEY_ID": SECRETS["key"],
        "AWS_SECRET_ACCESS_KEY": SECRETS["store"],
        "DISENT_SERVE_TOKEN": SECRETS["token"],
        "DISENT_ALERTS": f"http://127.0.0.1:9/{SECRETS['hook']}",
        "HF_TOKEN": SECRETS["hub"],
    }


def test_no_secret_is_in_output_files_or_server_responses(project, planted, postgres, address, s3):
    planted["DISENT_POSTGRES"] = postgres.address.replace("@", f":{SECRETS['password']}@", 1)
    with Proxy(s3, lambda request: refused if "/embeddings/" in request.path else through) as proxy:
        code, output = run(project, {**planted, "AWS_ENDPOINT_URL": proxy.address}, "materialize")
        assert (code, leaks(output.encode())) == (1, []), output
    commands = (
        ("materialize",), ("status",), ("doctor",), ("report",), ("leaderboard",), ("gc", "--dry-run"),
        ("sql", "select * from step_costs"), ("sql", "select getenv('AWS_SECRET_ACCESS_KEY')"),
    )  # fmt: skip
    for command in commands:
        code, output = run(project, planted, *command)
        assert (code, leaks(output.encode())) == (command[-1].startswith("select getenv"), []), output
    answers = answers_of_ui(project, planted) | answers_of_serve(project, planted)
    assert {name: leaks(text) for name, text in answers.items() if leaks(text)} == {}
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert len(files) > 100
    bucket = Bucket(address)
    dumped = subprocess.run(
        ["pg_dump", "--inserts", f"--host={postgres.folder}", "--username=postgres"], capture_output=True, check=True
    ).stdout
    assert b"materialize" in dumped or b"ASSET_MATERIALIZATION" in dumped
    written = {str(path): path.read_bytes() for path in files}
    written |= {item.key: bucket.read(item.key).data for item in bucket.listed()}
    written["the database"] = dumped
    assert {name: leaks(text) for name, text in written.items() if leaks(text)} == {}


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"DISENT_POSTGRES": f"postgresql+psycopg2://me:{SECRETS['password']}@127.0.0.1:9/runs"}, "doctor"),
        ({"DISENT_POSTGRES": f"postgresql+psycopg2://me:{SECRETS['password']}@127.0.0.1:port/runs"}, "doctor"),
        ({"DISENT_POSTGRES": f"postgresql+psycopg2://me:{ODD}@127.0.0.1:9/runs"}, "materialize"),
        ({"DISENT_POSTGRES": f"postgresql://me:{SECRETS['password']}@127.0.0.1/runs"}, "doctor"),
        ({"DISENT_ALERTS": f"ftp://{SECRETS['hook']}"}, "doctor"),
        ({"DISENT_HOME": f"s3://{SECRETS['key']}:{SECRETS['store']}@bucket/home"}, "status"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "status"),
        ({"AWS_ENDPOINT_URL": f"http://me:{SECRETS['store']}@127.0.0.1:9"}, "status"),
        ({"AWS_ENDPOINT_URL": f"http://me:{ODD}@127.0.0.1:9"}, "status"),
    ],
)
def test_no_secret_is_in_an_error(variables, command, project, planted):
    code, output = run(project, {**planted, **variables}, command)
    assert code in (1, 2)
    assert leaks(output.encode()) == [], output


def test_no_secret_is_in_the_error_of_a_store_that_refuses_it(project, planted, s3):
    with Proxy(s3, lambda _: refused) as proxy:
        code, output = run(project, {**planted, "AWS_ENDPOINT_URL": proxy.address}, "materialize")
    assert code == 1
    assert "the store denies access" in output
    assert leaks(output.encode()) == [], output


@pytest.mark.parametrize("url", [
    f"http://me:{SECRETS['url']}@127.0.0.1:9/corpus.zip",
    f"http://127.0.0.1:9/corpus.zip?X-Amz-Signature={SECRETS['signature']}",
])  # fmt: skip
def test_secrets_in_a_corpus_url_are_not_shown(url, project, planted):
    project.configure('path = "corpus"', f'url = "{url}"')
    for command in (["materialize", "key:corpora/downloads"], ["status"]):
        output = run(project, planted, *command)[1]
        assert leaks(output.encode()) == [], output
    written = {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}
    assert {path for path, text in written.items() if leaks(text)} == {project.config}

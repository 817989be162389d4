"""Keys, passwords and tokens of the environment are in nothing that disent prints or writes, also where it fails."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from made_postgres import Postgres
from remote_projects import RemoteProject
from stores import Proxy, environment, refused

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


def test_no_secret_is_in_what_commands_print_and_write(project, planted, postgres, address):
    planted["DISENT_POSTGRES"] = postgres.address.replace("@", f":{SECRETS['password']}@", 1)
    commands = (
        ("materialize",), ("status",), ("doctor",), ("report",), ("leaderboard",), ("gc", "--dry-run"),
        ("sql", "select * from step_costs"), ("sql", "select getenv('AWS_SECRET_ACCESS_KEY')"),
    )  # fmt: skip
    for command in commands:
        code, output = run(project, planted, *command)
        assert (code, leaks(output.encode())) == (command[-1].startswith("select getenv"), []), output
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
def test_no_secret_of_an_address_of_a_corpus_is_shown(url, project, planted):
    project.configure('path = "corpus"', f'url = "{url}"')
    for command in (["materialize", "key:corpora/downloads"], ["status"]):
        output = run(project, planted, *command)[1]
        assert leaks(output.encode()) == [], output
    written = {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}
    assert {path for path, text in written.items() if leaks(text)} == {project.config}

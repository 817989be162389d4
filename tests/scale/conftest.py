"""What needs the extras for more than one machine; `make scale-test` runs it, and `make test` does not collect it."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from stores import Machines, environment, make_bucket, moto, seaweedfs

from disent_core.storage.bucket import Bucket

SERVERS = {"moto": moto, "seaweedfs": seaweedfs}


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch) -> None:
    """Forget the folder of the last test: each that opens an instance names its own to the processes that it starts."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture(scope="session")
def started() -> Iterator[Callable[[str], str]]:
    """Start a server of S3 on loopback when it is first asked for; returns its address."""
    with ExitStack() as running:
        yield cache(lambda name: running.enter_context(SERVERS[name]()))


@pytest.fixture
def server(started: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Let the environment name a server of S3; returns its address."""

    def named(name: str) -> str:
        endpoint = started(name)
        for variable, value in environment(endpoint).items():
            monkeypatch.setenv(variable, value)
        return endpoint

    return named


@pytest.fixture
def s3(server: Callable[[str], str]) -> str:
    """S3 on loopback: its address, which the environment names too."""
    return server("moto")


def new_home(endpoint: str) -> str:
    """Make a home in a new bucket; returns its address."""
    return f"{make_bucket(endpoint, f'bucket-{uuid.uuid4().hex}')}/homes/one"


@pytest.fixture
def address(s3: str) -> str:
    return new_home(s3)


@pytest.fixture(params=["memory", *SERVERS])
def bucket(request: pytest.FixtureRequest, server: Callable[[str], str]) -> Bucket:
    return Bucket(new_home(server(request.param)) if request.param in SERVERS else "memory:///")


@pytest.fixture(params=["local", "memory", *SERVERS])
def machines(request: pytest.FixtureRequest, server: Callable[[str], str], tmp_path: Path) -> Iterator[Machines]:
    """Machines that share a folder, a bucket in memory, or one of S3."""
    addresses = {"local": lambda: None, "memory": lambda: "memory:///"}
    address = addresses.get(request.param, lambda: new_home(server(request.param)))()
    machines = Machines(tmp_path, None if address is None else Bucket(address))
    yield machines
    machines.end()

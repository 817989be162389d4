"""What needs the extras for more than one machine; `make scale-test` runs it, and `make test` does not collect it."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import Machines, environment, make_bucket, moto

from disent_core.storage.bucket import Bucket


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch) -> None:
    """Forget the folder of the last test: each that opens an instance names its own to the processes that it starts."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """S3 on loopback: its address, which the environment names too."""
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(endpoint).items():
            patch.setenv(name, value)
        yield endpoint


@pytest.fixture
def address(s3: str) -> str:
    """A home in a new bucket."""
    return f"{make_bucket(s3, f'bucket-{uuid.uuid4().hex}')}/homes/one"


@pytest.fixture(params=["memory", "s3"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    return Bucket(request.getfixturevalue("address") if request.param == "s3" else "memory:///")


@pytest.fixture(params=["local", "memory", "s3"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    """Machines that share a folder, a bucket in memory, or one of S3."""
    addresses = {
        "local": lambda: None,
        "memory": lambda: "memory:///",
        "s3": lambda: request.getfixturevalue("address"),
    }
    address = addresses[request.param]()
    machines = Machines(tmp_path, None if address is None else Bucket(address))
    yield machines
    machines.end()

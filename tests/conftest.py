"""Tests reach neither the network nor the results of the project."""

import gc
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import jaxtyping
import pytest

if TYPE_CHECKING:
    from disent_core.config.model import Config

TESTS = Path(__file__).parent

# Before torch is loaded, and for the processes that tests start.
os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
for name in ("DISENT_CONFIG", "DISENT_HOME", "DAGSTER_HOME"):
    os.environ.pop(name, None)

# A lineage waits half of its time for a disk; a container's memory may be too small, or execute nothing.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30 and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Signatures of modules with array shapes are checked at every call; the others', which the type checker checks, took a
# third of the time of all imports.
SHAPED = [
    ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
    for path in sorted((TESTS.parent / "disent_core").rglob("*.py"))
    if "from jaxtyping" in path.read_text(encoding="utf-8")
]
assert SHAPED
assert not sys.modules.keys() & set(SHAPED), "what is imported already is not checked"
jaxtyping.install_import_hook(SHAPED, "beartype.beartype")

# A busy machine is no defect: pytest's own timeout ends what hangs. Every run draws other examples, so few are enough.
hypothesis.settings.register_profile("disent", deadline=None, max_examples=50)
hypothesis.settings.load_profile("disent")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that two processes end at the same time.

    One process makes `story` with the first file, while the other runs files that don't need it.
    """
    waiting = {item.path for item in items if "story" in getattr(item, "fixturenames", ())}
    first = next((item.path for item in items if item.path in waiting), None)
    items.sort(key=lambda item: ("end_to_end" not in item.path.parts, item.path != first, item.path in waiting))


def pytest_collection_finish() -> None:
    """Exempt what has been imported from garbage collection, which would take a twentieth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check array shapes in the tests of the core and of `disent`; the others would take a quarter longer."""
    is_checked = request.path.relative_to(TESTS).parts[0] in ("core", "disent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", not is_checked)
        yield


@pytest.fixture(autouse=True, scope="session")
def results_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What forgets to say where results go finds an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISENT_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Connections stay on this machine."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"tests have no network, and this one asks for {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_here)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def load(tmp_path: Path) -> "Callable[[str], Config]":
    """Reads a configuration from its text, as the file `disent.toml` of the test's folder."""
    from disent_core.config.load import load_config  # not before shapes are checked

    def load_text(text: str) -> "Config":
        path = tmp_path / "disent.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path)

    return load_text

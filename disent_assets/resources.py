"""Read from the environment which configuration and folder of results are used, and how a run is executed.

This is the only module that reads `DISENT_CONFIG` (default `disent.toml` in the project), `DISENT_HOME` (default
`data/` in the project), `DISENT_EXECUTOR` and `DISENT_UI`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from disent_core.errors import ConfigError

if TYPE_CHECKING:
    from disent_core.experiment.workspace import Workspace

PROJECT = Path(__file__).resolve().parent.parent
SQL = PROJECT / "sql"


def home_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of results."""
    return Path(environment.get("DISENT_HOME") or PROJECT / "data").expanduser().resolve()


def run_settings(environment: Mapping[str, str] = os.environ, *, choices: tuple[str, ...]) -> tuple[str, str | None]:
    """The executor of the steps of a run (by default the first choice), and the address of the UI, if any.

    Raises:
        ConfigError: if DISENT_EXECUTOR is not one of the choices.
    """
    executor = environment.get("DISENT_EXECUTOR") or choices[0]
    if executor not in choices:
        raise ConfigError(f"DISENT_EXECUTOR: {executor!r} is none of {', '.join(choices)}")
    return executor, environment.get("DISENT_UI") or None


def configuration(environment: Mapping[str, str] = os.environ) -> Path:
    """The configuration file."""
    return Path(environment.get("DISENT_CONFIG") or PROJECT / "disent.toml").expanduser()


def open_workspace(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """The workspace that the environment names.

    Raises:
        ConfigError: if the configuration can't be read.
    """
    from disent_core.config.load import load_config  # loads torch, which whoever only asks the warehouse does not need
    from disent_core.experiment.workspace import Workspace

    return Workspace(load_config(configuration(environment)), home_folder(environment))


def open_for_work(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """The workspace that the environment names, with its corpora in place: a run is going to read them.

    Raises:
        ConfigError: if the configuration can't be read, or the path of a corpus does not exist.
    """
    from disent_core.config.checks import check_paths

    workspace = open_workspace(environment)
    check_paths(workspace.config)
    return workspace


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

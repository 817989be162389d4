"""What the environment names: the configuration, the folder of results, how a run is executed.

The one place that reads `DISENT_CONFIG` (default `disent.toml` in the project), `DISENT_HOME` (default `data/` in the
project), `DISENT_EXECUTOR` and `DISENT_UI`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from disent_core.config.load import load_config
from disent_core.errors import ConfigError
from disent_core.experiment.workspace import Workspace

PROJECT = Path(__file__).resolve().parent.parent
SQL = PROJECT / "sql"


def home_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Folder of results."""
    return Path(environment.get("DISENT_HOME") or PROJECT / "data").expanduser().resolve()


def run_settings(environment: Mapping[str, str] = os.environ, *, choices: tuple[str, ...]) -> tuple[str, str | None]:
    """Which executor runs the steps of a run, the first choice if none is named, and the address of the UI.

    Raises:
        ConfigError: if there is no such executor.
    """
    executor = environment.get("DISENT_EXECUTOR") or choices[0]
    if executor not in choices:
        raise ConfigError(f"DISENT_EXECUTOR: {executor!r} is none of {', '.join(choices)}")
    return executor, environment.get("DISENT_UI") or None


def open_workspace(environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace that the environment names.

    Raises:
        ConfigError: if the configuration can't be read.
    """
    path = Path(environment.get("DISENT_CONFIG") or PROJECT / "disent.toml").expanduser()
    return Workspace(load_config(path), home_folder(environment))

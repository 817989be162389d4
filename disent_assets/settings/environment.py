"""Read disent's environment variables: which configuration and results to use, and how to run steps."""

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from disent.home import CONFIG, PROJECT, SHARED, check_owner, home_folder, path_of
from disent_core.errors import ConfigError

if TYPE_CHECKING:
    from disent_core.lineage.workspace import Workspace
    from disent_core.shards.backend import ShardBackend

SQL = SHARED / "sql"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment of a process that runs one of several steps; results do not depend on the number of cores."""
_POSTGRES = "postgresql+psycopg2://"


class Variable(NamedTuple):
    name: str
    default: str  # for an unset or empty variable
    description: str
    wanted: str = ""  # what a value must be, for error messages
    is_valid: Callable[[str], bool] = bool
    is_secret: bool = False  # not shown, nor passed to other machines, which have it in their own environment


def _choice(name: str, choices: tuple[str, ...], description: str) -> Variable:
    return Variable(name, choices[0], description, f"one of {', '.join(choices)}", choices.__contains__)


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def _is_positive(text: str) -> bool:
    return _is_number(text) and float(text) > 0


def _is_count(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


def _is_shards(text: str) -> bool:
    name, colon, count = text.partition(":")
    return text in ("inline", "processes", "ray") or (name == "processes" and bool(colon) and _is_count(count))


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_database(text: str) -> bool:
    if not text.startswith(_POSTGRES):
        return False
    from sqlalchemy.engine import make_url

    try:
        return bool(make_url(text))
    except ValueError:  # its message would show the part of a password after a `:`
        return False


_SHORTEST_TOKEN = 16
_NUMBER = "a number >= 0"
VARIABLES = {
    variable.name: variable
    for variable in (
        Variable("DISENT_CONFIG", "", f"the configuration; default: {CONFIG} in the project"),
        Variable("DISENT_HOME", "", "the folder or bucket of results; default: data in the project"),
        Variable("DISENT_CACHE", "~/.cache/disent",
                 "the folder of downloaded models and copies of a home in a bucket"),
        Variable("DISENT_CACHE_SIZE", "0", "GB that copies of tables, pictures and arrays may take; 0: no limit",
                 _NUMBER, _is_number),
        _choice("DISENT_PROFILE", ("local", "ray", "k8s", "slurm"), "where steps run: in processes of this machine, or "
                "on Ray, Kubernetes or a Slurm allocation"),
        Variable("DISENT_WORKERS", "", "how many steps run at once; default: one per core; 16 on clusters",
                 "an integer >= 1", _is_count),
        _choice("DISENT_EXECUTOR", ("in_process", "multiprocess"), "executor of runs that the UI starts"),
        Variable("DISENT_SHARDS", "", "where shards of a step are computed; default: ray on Ray and Slurm, else inline",
                 "one of inline, processes, processes:N, ray", _is_shards),
        Variable("DISENT_GPU", "1", "GPUs of a step that encodes, trains or measures; 0 where there are none",
                 _NUMBER, _is_number),
        Variable("DISENT_MEMORY", "1", "factor for the memory that steps request", "a number > 0", _is_positive),
        Variable("DISENT_MEMORY_LIMIT", "", "GB of the largest machine, which no request exceeds; default: 16 times "
                 "DISENT_MEMORY", "a number > 0", _is_positive),
        Variable("DISENT_POSTGRES", "", "database of Dagster's runs and events; default: SQLite in the home",
                 f"an address that begins with {_POSTGRES} (postgresql:// names another driver); write / @ : # ? of a "
                 "password as %2F %40 %3A %23 %3F", _is_database, is_secret=True),
        Variable("DISENT_WORKSPACE", str(SHARED / "workspace.yaml"), "workspace.yaml through which runs are submitted"),
        Variable("DISENT_UI", "", "address of the web server, for links to runs"),
        Variable("DISENT_PICTURES", "/pictures", "address at which browsers find the plots of the home"),
        Variable("DISENT_ALERTS", "", "webhook that receives failed runs", "an address that begins with http:// or https://",
                 _is_address, is_secret=True),
        Variable("DISENT_SERVE_TOKEN", "", "token required by disent serve; default: no login",
                 "at least 16 characters, such as openssl rand -hex 16 prints; unset it to have no login",
                 lambda text: len(text) >= _SHORTEST_TOKEN, is_secret=True),
        Variable("DISENT_STARTED", "", "set by disent dev: names its start"),
    )
}  # fmt: skip
"""All of disent's environment variables, by name."""


def value(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the validated value of a variable or its default; empty if it is unset and has no default."""
    variable = VARIABLES[name]
    text = environment.get(name) or variable.default
    if text and not variable.is_valid(text):
        raise ConfigError(f"{name} must be {variable.wanted}" + f", got {text!r}" * (not variable.is_secret))
    return text


def described_variables() -> str:
    lines = [
        f"| `{variable.name}` | {variable.description} | {f'`{default}`' if default else ''} |"
        for variable in VARIABLES.values()
        for default in [variable.default.replace(f"{SHARED}/", "")]
    ]
    return "\n".join(["| variable | meaning | default |", "|---|---|---|", *lines]) + "\n"


@dataclass(frozen=True)
class RunSettings:
    """How runs are executed and refreshed; fields are named after their environment variables."""

    executor: str
    ui: str | None = None
    alerts: str | None = None
    started: str = ""
    workers: int | None = None
    profile: str = "local"


def address_of(home: Path) -> str:
    """Return the DISENT_HOME of a process that uses this home: its path, or its address in a bucket."""
    from disent_core.storage.remote import bucket_of

    bucket = bucket_of(home)
    return str(home) if bucket is None else bucket.address


def run_settings(environment: Mapping[str, str] = os.environ) -> RunSettings:
    workers = value("DISENT_WORKERS", environment)
    return RunSettings(
        value("DISENT_EXECUTOR", environment),
        ui=value("DISENT_UI", environment) or None,
        alerts=value("DISENT_ALERTS", environment) or None,
        started=value("DISENT_STARTED", environment),
        workers=int(workers) if workers else None,
        profile=profile_of(environment),
    )


def serve_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token of `disent serve`; reject an empty one, which must not disable the login by mistake."""
    name = "DISENT_SERVE_TOKEN"
    if name in environment and not environment[name]:
        raise ConfigError(f"{name} must be {VARIABLES[name].wanted}")
    return value(name, environment) or None


def shard_backend(environment: Mapping[str, str] = os.environ) -> "ShardBackend":
    from disent_core.methods.spec import usable_cores
    from disent_core.shards.backend import ShardBackend

    usual = "ray" if profile_of(environment) in ("ray", "slurm") else "inline"
    name, _, count = (value("DISENT_SHARDS", environment) or usual).partition(":")
    if name == "processes":
        return ShardBackend("processes", int(count) if count else usable_cores())
    return ShardBackend("ray" if name == "ray" else "inline")


# --- where steps run --------------------------------------------------------------------------------------


def profile_of(environment: Mapping[str, str] = os.environ) -> str:
    return value("DISENT_PROFILE", environment)


def is_local(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether steps run as processes on this machine."""
    return profile_of(environment) == VARIABLES["DISENT_PROFILE"].default


def step_share(environment: Mapping[str, str] = os.environ) -> tuple[float, float]:
    """Return the number of GPUs of a step that computes, and a factor for the memory of every step."""
    return float(value("DISENT_GPU", environment)), float(value("DISENT_MEMORY", environment))


def memory_limit(environment: Mapping[str, str] = os.environ) -> float:
    """Return the GB that a step may request; by default, what the largest steps request without records."""
    from disent_core.lineage.step import FINE_TUNING

    return float(value("DISENT_MEMORY_LIMIT", environment) or FINE_TUNING * step_share(environment)[1])


def database(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the address of the Postgres database for Dagster's runs and events, if there is one."""
    return value("DISENT_POSTGRES", environment) or None


def code_locations(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the `workspace.yaml` through which runs are submitted; by default it starts a code server here."""
    return path_of("DISENT_WORKSPACE", value("DISENT_WORKSPACE", environment))


def passed_on(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the variables that this process passes on to steps on other machines."""
    secret = {name for name, variable in VARIABLES.items() if variable.is_secret}
    return ["PATH", *sorted(name for name in environment if name.startswith("DISENT_") and name not in secret)]


def configuration(environment: Mapping[str, str] = os.environ) -> Path:
    return path_of("DISENT_CONFIG", environment.get("DISENT_CONFIG") or PROJECT / CONFIG)


def open_workspace(environment: Mapping[str, str] = os.environ) -> "Workspace":
    from disent_core.config.load import load_config  # loads torch, which querying the warehouse does not need
    from disent_core.lineage.workspace import Workspace

    config, home = load_config(configuration(environment)), home_folder(environment)
    workspace = Workspace(config, home, shard_backend=shard_backend(environment))
    check_owner(workspace.config, workspace.home)
    return workspace


def open_to_look(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """Return the workspace with its corpora in place; its folder of results may be read-only."""
    from disent_core.config.checks import check_paths

    workspace = open_workspace(environment)
    check_paths(workspace.config)
    return workspace


def use_utf8() -> None:
    """Start this program again in Python's UTF-8 mode if the locale has another encoding.

    Otherwise non-ASCII paths could not be written to Parquet or JSON, nor texts to the terminal.
    """
    is_utf8 = {sys.getfilesystemencoding(), sys.stdout.encoding, sys.stderr.encoding} <= {"utf-8", "UTF-8"}
    if not is_utf8 and os.environ.get("PYTHONUTF8") != "1":
        os.environ |= {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}  # for the processes that this one starts too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started within the context."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update({name: before[name] for name in values if name in before})

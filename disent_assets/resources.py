"""Read from the environment which configuration and folder of results are used, and how a run is executed.

This is the only module that reads `DISENT_CONFIG` (default `disent.toml` in the project, see `project_folder`),
`DISENT_HOME` (default `data/` in the project), `DISENT_CACHE`, `DISENT_CACHE_SIZE`, `DISENT_EXECUTOR`, `DISENT_SHARDS`,
`DISENT_UI`, `DISENT_ALERTS`, `DISENT_WORKERS` and `DISENT_STARTED`, and, where steps run on other machines,
`DISENT_PROFILE`, `DISENT_POSTGRES`, `DISENT_WORKSPACE`, `DISENT_GPU`, `DISENT_MEMORY` and `DISENT_PICTURES`
(`docs/scale.md` describes them for users).
"""

import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from disent_core.errors import ConfigError

if TYPE_CHECKING:
    from disent_core.experiment.workspace import Workspace
    from disent_core.shards.engine import Engine

_BUNDLED = Path(__file__).resolve().parent / "project"
"""In an installed package: what a checkout has beside the packages."""
SHARED = _BUNDLED if _BUNDLED.is_dir() else _BUNDLED.parents[1]
"""Has the SQL, configurations and sample corpora that disent comes with. Nothing is written here."""
SQL = SHARED / "sql"
CONFIG = "disent.toml"
PROFILES = ("local", "ray", "k8s", "slurm")
"""Where steps run: in processes of this machine, or wherever Ray, Kubernetes or an allocation of Slurm has room."""
EXECUTORS = ("in_process", "multiprocess")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment of a process that runs one of several steps; results do not depend on the number of its cores."""
_SECRET = ("DISENT_POSTGRES", "DISENT_ALERTS")
"""What no cluster may show; processes on other machines have it in their own environment."""
_POSTGRES = "postgresql+psycopg2://"


def project_folder() -> Path:
    """The user's project: the working folder if it has a configuration or the package is installed; or the checkout."""
    own = os.path.isfile(CONFIG)  # noqa: PTH113 - a working folder that is gone or forbidden has none: no error
    return Path.cwd() if own or SHARED is _BUNDLED else SHARED


PROJECT = project_folder()
"""As it was when this process started."""


def home_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of results or, if they are in a bucket (`s3://bucket/prefix`), of their copies on this machine.

    Raises:
        ConfigError: if DISENT_HOME names the home of a user who does not exist, or a store that is not known, or
            DISENT_CACHE_SIZE is no number.
    """
    home = environment.get("DISENT_HOME") or PROJECT / "data"
    if _names_a_store(str(home)):
        cache = _path("DISENT_CACHE", environment.get("DISENT_CACHE") or "~/.cache/disent")
        return _copies_of(str(home), cache, _number("DISENT_CACHE_SIZE", environment.get("DISENT_CACHE_SIZE") or "0"))
    return _path("DISENT_HOME", home).resolve()


def _names_a_store(home: str) -> bool:
    """Whether a home is meant to be in a store: also with one slash, which would make a folder."""
    if ":" not in home:
        return False
    from disent_core.storage.objects import SCHEMES

    return "://" in home or home.partition(":")[0] in SCHEMES


def _copies_of(address: str, cache: Path, gigabytes: float) -> Path:
    """The folder with copies of the results in a bucket, to which this process attaches it; 0 is no bound."""
    from disent_core.storage.objects import SCHEMES, Bucket
    from disent_core.storage.remote import RemoteHome, attach
    from disent_core.storage.room import Room
    from disent_core.storage.tables import fingerprint

    scheme, _, place = address.rstrip("/").partition("://")
    if scheme not in SCHEMES or not place:
        known = ", ".join(f"{one}://bucket/prefix" for one in SCHEMES)
        raise ConfigError(f"DISENT_HOME: {address!r} is neither a folder nor one of {known}")
    name = "".join(letter if letter.isalnum() else "-" for letter in place)[:80]
    folder = cache.resolve() / f"{name}-{fingerprint(scheme, place)[:8]}"
    room = Room(folder, int(gigabytes * 1e9)) if gigabytes else None
    attach(RemoteHome(Bucket(f"{scheme}://{place}"), folder, room=room))
    return folder


def open_home(home: str | Path) -> Path:
    """As `home_folder`, for a home that somebody has named: a folder, or an address."""
    return home_folder({**os.environ, "DISENT_HOME": str(home)})


@dataclass(frozen=True)
class RunSettings:
    """How runs are executed and refreshed.

    Attributes:
        executor: of the steps of a run that the UI starts, if they run on this machine.
        ui: address of the web server, if there is one.
        alerts: address of a webhook that is told of failed runs, if there is one.
        started: names this start of `disent dev`.
        workers: how many steps of a refresh run at once; None for one a core.
        profile: where steps run.
    """

    executor: str
    ui: str | None = None
    alerts: str | None = None
    started: str = ""
    workers: int | None = None
    profile: str = "local"


def environment_of(config: Path, home: Path) -> dict[str, str]:
    """The environment of a process that works with another configuration and folder than this one."""
    return {**os.environ, "DISENT_CONFIG": str(config), "DISENT_HOME": address_of(home)}


def address_of(home: Path) -> str:
    """What DISENT_HOME has to be for a process that uses the same home."""
    from disent_core.storage.remote import bucket_of

    bucket = bucket_of(home)
    return str(home) if bucket is None else bucket.address


def run_settings(environment: Mapping[str, str] = os.environ) -> RunSettings:
    """The settings of this process.

    Raises:
        ConfigError: if DISENT_PROFILE or DISENT_EXECUTOR is none of the choices, DISENT_ALERTS no address, or
            DISENT_WORKERS no number.
    """
    executor = _chosen("DISENT_EXECUTOR", EXECUTORS, environment)
    workers = environment.get("DISENT_WORKERS") or None
    if workers is not None and (not workers.isdecimal() or int(workers) < 1):
        raise ConfigError(f"DISENT_WORKERS: {workers!r} is no number from 1 on")
    return RunSettings(
        executor,
        ui=environment.get("DISENT_UI") or None,
        alerts=alerts_address(environment),
        started=environment.get("DISENT_STARTED", ""),
        workers=None if workers is None else int(workers),
        profile=profile_of(environment),
    )


def shard_engine(environment: Mapping[str, str] = os.environ) -> "Engine":
    """Where the shards of a step are computed: `inline`, `processes`, `processes:N` or `ray`, as by default on Ray.

    Raises:
        ConfigError: if DISENT_SHARDS is none of these.
    """
    from disent_core.shards.engine import Engine

    usual = "ray" if profile_of(environment) in ("ray", "slurm") else "inline"
    name, colon, count = (environment.get("DISENT_SHARDS") or usual).partition(":")
    if name in ("inline", "ray") and not colon:
        return Engine(name)
    if name == "processes" and (not colon or (count.isdecimal() and int(count) > 0)):
        return Engine(name, int(count) if colon else len(os.sched_getaffinity(0)))
    raise ConfigError(f"DISENT_SHARDS: {name + colon + count!r} is none of inline, processes, processes:N, ray")


# --- where steps run --------------------------------------------------------------------------------------


def profile_of(environment: Mapping[str, str] = os.environ) -> str:
    """Where steps run; in this machine's processes by default.

    Raises:
        ConfigError: if DISENT_PROFILE is none of the profiles.
    """
    return _chosen("DISENT_PROFILE", PROFILES, environment)


def _chosen(name: str, choices: tuple[str, ...], environment: Mapping[str, str]) -> str:
    choice = environment.get(name) or choices[0]
    if choice not in choices:
        raise ConfigError(f"{name}: {choice!r} is none of {', '.join(choices)}")
    return choice


def is_local(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether steps run in processes of this machine. Raises as `profile_of`."""
    return profile_of(environment) == PROFILES[0]


def step_share(environment: Mapping[str, str] = os.environ) -> tuple[float, float]:
    """The GPUs of a step that computes, 1 by default, and what the memory of every step is multiplied by.

    Raises:
        ConfigError: if DISENT_GPU or DISENT_MEMORY is no number, or no memory is left.
    """
    gpus, memory = (_number(name, environment.get(name) or "1") for name in ("DISENT_GPU", "DISENT_MEMORY"))
    if not memory:
        raise ConfigError("DISENT_MEMORY: a step can't run without memory")
    return gpus, memory


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ConfigError(f"{name}: {value!r} is no number from 0 on")
    return number


def database(environment: Mapping[str, str] = os.environ) -> str | None:
    """Address of the Postgres database of Dagster's runs and events, if there is one.

    Raises:
        ConfigError: if DISENT_POSTGRES does not name the driver that Dagster has.
    """
    address = environment.get("DISENT_POSTGRES") or None
    if address is not None and not address.startswith(_POSTGRES):
        raise ConfigError(f"DISENT_POSTGRES has to begin with {_POSTGRES}, as postgresql:// names another driver")
    return address


def code_locations(environment: Mapping[str, str] = os.environ) -> Path:
    """The `workspace.yaml` through which runs are submitted; by default the one that starts a code server here."""
    return _path("DISENT_WORKSPACE", environment.get("DISENT_WORKSPACE") or SHARED / "workspace.yaml")


def pictures_address(environment: Mapping[str, str] = os.environ) -> str:
    """Where browsers find the folder `plots`; by default below the web server that shows the page."""
    return (environment.get("DISENT_PICTURES") or "/pictures").rstrip("/")


def passed_on(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Names of the variables that a step on another machine gets from this process."""
    return ["PATH", *sorted(name for name in environment if name.startswith("DISENT_") and name not in _SECRET)]


def alerts_address(environment: Mapping[str, str] = os.environ) -> str | None:
    """The webhook that is told of failed runs.

    Raises:
        ConfigError: if it is no address.
    """
    address = environment.get("DISENT_ALERTS") or None
    if address is not None and not _is_address(address):
        raise ConfigError("DISENT_ALERTS is no address that begins with http:// or https://")
    return address


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def configuration(environment: Mapping[str, str] = os.environ) -> Path:
    """The configuration file."""
    return _path("DISENT_CONFIG", environment.get("DISENT_CONFIG") or PROJECT / CONFIG)


def _path(name: str, value: str | Path) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{name}: {str(value)!r} names a user who does not exist here") from error


def open_workspace(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """The workspace that the environment names.

    Raises:
        ConfigError: if the configuration can't be read, or the folder has the results of another.
    """
    from disent_assets.homes import check_owner
    from disent_core.config.load import load_config  # loads torch, which whoever only asks the warehouse does not need
    from disent_core.experiment.workspace import Workspace

    config, home = load_config(configuration(environment)), home_folder(environment)
    workspace = Workspace(config, home, engine=shard_engine(environment))
    check_owner(workspace.config, workspace.home)
    return workspace


def open_for_work(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """The workspace that the environment names, for a run: its corpora are in place, and its folder is this one's.

    Raises:
        ConfigError: if the configuration can't be read, the path of a corpus does not exist, or the folder has the
            results of another configuration.
        StorageError: if the folder can't be written.
    """
    from disent_assets.homes import claim, prepare

    workspace = open_to_look(environment)
    prepare(workspace.home)
    claim(workspace.config, workspace.home)
    return workspace


def open_to_look(environment: Mapping[str, str] = os.environ) -> "Workspace":
    """The workspace that the environment names, with its corpora in place, in a folder that may be read-only.

    Raises:
        ConfigError: as `open_for_work`.
    """
    from disent_core.config.checks import check_paths

    workspace = open_workspace(environment)
    check_paths(workspace.config)
    return workspace


def use_utf8() -> None:
    """Start this program again in Python's UTF-8 mode if the locale has another encoding.

    Otherwise paths with other letters than ASCII could not be written to Parquet or JSON, nor texts to the terminal.
    """
    is_utf8 = {sys.getfilesystemencoding(), sys.stdout.encoding, sys.stderr.encoding} <= {"utf-8", "UTF-8"}
    if not is_utf8 and os.environ.get("PYTHONUTF8") != "1":
        os.environ |= {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}  # for the processes that this one starts too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


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

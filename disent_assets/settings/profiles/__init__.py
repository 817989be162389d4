"""Differences between the profiles: the executor of steps, the settings in `dagster.yaml`, and lost connections.

Lost connections to Postgres are retried for up to ten minutes. A query that is running when the connection is lost
fails. `retried` repeats it; a failed step is started again (see `factory.LOST_PROCESS`).
"""

import sys
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import dagster as dg
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from disent_assets.settings.environment import ONE_THREAD, RunSettings, database, is_local, passed_on
from disent_core.errors import ConfigError, StorageError, located
from disent_core.storage.patience import PATIENCE_SECONDS, Patience

_FOLDER = Path(__file__).parent
LOOK_SECONDS = 1.0
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def dagster_settings() -> str:
    """Return the text of a new `dagster.yaml`: for one machine or a cluster, with its own database or Postgres."""
    of = _FOLDER.parent if is_local() else _FOLDER
    names = [of / "dagster.yaml", *([_FOLDER / "postgres.yaml"] if database() else [])]
    return "".join(path.read_text(encoding="utf-8") for path in names)


def executor_of(settings: RunSettings, launch: Callable[[Any], Any]) -> dg.ExecutorDefinition:
    """Return the executor for a run's steps; import only that of the profile. `launch` is as for `for_cluster`."""
    if settings.profile == "local":
        return {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}[settings.executor]
    one_thread = [f"{name}={value}" for name, value in ONE_THREAD.items()]
    if settings.profile == "k8s":  # every step is a Job, with the image, namespace and secrets of the run's pod
        from dagster_k8s import k8s_job_executor  # pyright: ignore[reportMissingImports] - of the extra k8s

        names = [name for name in passed_on() if name != "PATH"]  # the image has its own PATH
        return for_cluster(k8s_job_executor.configured({"env_vars": [*names, *one_thread]}), launch)
    from dagster_ray import ray_executor  # pyright: ignore[reportMissingImports] - of the extra ray

    # Every step is a Ray job, on a machine with the resources it asks for; slurm is a Ray started by an allocation. The
    # executor sets no processors and GPUs: in dagster-ray 0.4.8 these would replace what steps ask for.
    return for_cluster(ray_executor.configured({"ray": {"env_vars": [*passed_on(), *one_thread]}}), launch)


def for_cluster(executor: dg.ExecutorDefinition, launch: Callable[[Any], Any]) -> dg.ExecutorDefinition:
    """Wrap an executor: it polls on while the database is away, and `launch` wraps the context of each launch."""
    create, schema = executor.executor_creation_fn, cast(Any, executor.config_schema)
    assert create is not None

    def wrapped(context: dg.InitExecutorContext) -> Any:
        made: Any = create(context)
        made._pop_events = retried(made._pop_events)
        launch_step = made._step_handler.launch_step
        made._step_handler.launch_step = lambda of_step: launch_step(launch(of_step))
        return made

    return dg.ExecutorDefinition(
        executor.name, schema, requirements=executor.get_requirements, executor_creation_fn=wrapped
    )


# --- lost connections to Postgres -----------------------------------------------------------------------------


def connect(patience: Patience, dialect: Any, arguments: Any, options: Any) -> Any:
    """Return a connection to Postgres; None for other databases, which SQLAlchemy connects to itself."""
    if dialect.name != "postgresql":
        return None
    away = dialect.loaded_dbapi.OperationalError
    request = partial(dialect.loaded_dbapi.connect, *arguments, **options)
    return patience.ask(request, lambda error: isinstance(error, away))


@cache
def wait_for_database() -> None:
    """Retry all of this process's connections to Postgres; Dagster itself gives up after 6 s."""
    if find_spec("dagster_postgres") is None:
        raise ConfigError("DISENT_POSTGRES needs an extra: pip install 'disent-embeddings[lineage,postgres]'")
    patience = Patience("the database of DISENT_POSTGRES")

    def connected(dialect: Any, _: object, arguments: Any, options: Any) -> Any:
        return connect(patience, dialect, arguments, options)

    event.listen(Engine, "do_connect", connected)


def check_database(address: str) -> None:
    """Connect to the database once."""
    try:
        create_engine(address).connect().close()
    except DBAPIError as error:
        reason = str(error.orig).strip().split("\n", 1)[0]
        problem, remedy = f"the database does not answer ({reason})", "Start it, or correct the address"
        raise StorageError(located("DISENT_POSTGRES", None, problem, remedy)) from error


def database_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that Dagster raises while its database is unreachable."""
    if "dagster_postgres" not in sys.modules:
        return (DBAPIError,)
    from dagster_postgres.utils import DagsterPostgresException  # pyright: ignore[reportMissingImports]

    return DBAPIError, DagsterPostgresException


def retried(
    ask: Callable[Given, Answer],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Callable[Given, Answer]:
    """Wrap a function so that it is called again while the database is unreachable, for up to ten minutes."""

    def asked(*arguments: Given.args, **options: Given.kwargs) -> Answer:
        began = clock()
        while True:
            try:
                return ask(*arguments, **options)
            except database_errors():
                if clock() - began > PATIENCE_SECONDS:
                    raise
                pause(LOOK_SECONDS)

    return asked

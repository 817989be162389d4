"""Wait while the database of runs and events is away: every process that has reached it once, for ten minutes.

A question that is under way when the database goes is lost. Whoever asks again and again repeats it (`patient`); a step
is begun again, see `factory.LOST_PROCESS`.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ParamSpec, TypeVar, cast

import dagster as dg
from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

PATIENCE_SECONDS = 600.0
"""How long the database may be away."""
LOOK_SECONDS = 1.0
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


@dataclass
class Patience:
    """Connects to Postgres, and waits for a database that it has reached before.

    Attributes:
        has_connected: whether it has; who starts while the database is away is told so at once.
        away_since: when it was found away.
    """

    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    has_connected: bool = False
    away_since: float | None = None

    def connect(self, dialect: Any, _: object, arguments: Any, options: Any) -> Any:
        """A new connection; None for another kind of database, to which SQLAlchemy connects then."""
        if dialect.name != "postgresql":
            return None
        while True:
            try:
                connection = dialect.loaded_dbapi.connect(*arguments, **options)
            except dialect.loaded_dbapi.OperationalError:
                now = self.clock()
                self.away_since = now if self.away_since is None else self.away_since
                if not self.has_connected or now - self.away_since > PATIENCE_SECONDS:
                    raise
                self.pause(LOOK_SECONDS)
            else:
                self.has_connected, self.away_since = True, None
                return connection


@cache
def wait_for_database() -> None:
    """Let all connections of this process to Postgres be patient. Dagster's own wait for 6 s, and a thread of its code
    server that reports lost runs ends then."""
    event.listen(Engine, "do_connect", Patience().connect)


def database_errors() -> tuple[type[Exception], ...]:
    """What Dagster raises while its database is away."""
    if "dagster_postgres" not in sys.modules:
        return (DBAPIError,)
    from dagster_postgres.utils import DagsterPostgresException  # pyright: ignore[reportMissingImports]

    return DBAPIError, DagsterPostgresException


def patient(
    ask: Callable[Given, Answer],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Callable[Given, Answer]:
    """The same function, which asks again while the database is away; after `PATIENCE_SECONDS` it raises its error."""

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


def patient_executor(executor: dg.ExecutorDefinition) -> dg.ExecutorDefinition:
    """The same executor, which goes on looking for the events of its steps while the database is away."""

    create, schema = executor.executor_creation_fn, cast(Any, executor.config_schema)
    assert create is not None

    def waiting(context: dg.InitExecutorContext) -> Any:
        made: Any = create(context)
        made._pop_events = patient(made._pop_events)
        return made

    return dg.ExecutorDefinition(
        executor.name, schema, requirements=executor.get_requirements, executor_creation_fn=waiting
    )

"""Retry lost connections to Postgres for up to ten minutes.

A query that is running when the connection is lost fails. `retried` repeats it; a failed step is started again (see
`factory.LOST_PROCESS`).
"""

import sys
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from disent_core.errors import ConfigError, StorageError, located
from disent_core.storage.patience import PATIENCE_SECONDS, Patience

LOOK_SECONDS = 1.0
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


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

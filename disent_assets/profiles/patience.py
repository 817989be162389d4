"""Wait while the database of runs and events is away, as steps do that write nothing meanwhile."""

import sys
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import dagster as dg
from sqlalchemy.exc import DBAPIError

PATIENCE_SECONDS = 600.0
"""How long the database may be away. Steps that write meanwhile are tried again, see `factory.LOST_PROCESS`."""
LOOK_SECONDS = 1.0
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


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

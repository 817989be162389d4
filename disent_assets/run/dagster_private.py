"""Use non-public parts of Dagster. `tests/assets/test_dagster_private.py` tests what we rely on."""

import asyncio
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

LOCATION = "disent"  # name of the code location in `workspace.yaml`
ORIGIN = RemoteRepositoryOrigin(
    ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name="disent_assets.definitions"), LOCATION),
    "__repository__",
)
QUEUE_DAEMON = "QUEUED_RUN_COORDINATOR"  # type of the daemon that starts queued runs


def prepare_runs(instance: dg.DagsterInstance, job: str) -> None:
    """Give the runs that this process starts an origin, and stop the copying of their steps' output.

    Runs with the code location's origin appear on the page Timeline. Steps print nothing, yet Dagster would start four
    processes per run to copy it, and a progress bar would not reach the terminal.
    """
    create = type(instance).create_run_for_job
    instance.create_run_for_job = partial(create, instance, remote_job_origin=RemoteJobOrigin(ORIGIN, job))
    instance._compute_log_manager = NoOpComputeLogManager()
    _reuse_engines(sys.modules[type(instance.event_log_storage).__module__])


def _reuse_engines(storage: Any) -> None:
    """Keep one engine per SQLite file: Dagster makes one for each event, and each compiles all its statements again.

    The engines hold no connection, so forks and deleted files do them no harm.
    """
    create = getattr(storage, "create_engine", None)
    if create is None or hasattr(create, "engines"):
        return
    engines: dict[str, Any] = {}

    def engine(url: str, **options: Any) -> Any:
        if not url.startswith("sqlite"):  # other databases have one engine already
            return create(url, **options)
        if url not in engines:
            engines[url] = create(url, **options)
        return engines[url]

    reused: Any = engine
    reused.engines = engines
    storage.create_engine = reused


def step_function(asset: dg.AssetsDefinition) -> Any:
    """Return the decorated function, which takes the context."""
    function: Any = asset.op.compute_fn
    return function.decorated_fn if function.has_context_arg() else lambda _: function.decorated_fn()


@contextmanager
def code_locations(instance: dg.DagsterInstance, file: Path) -> Iterator[Any]:
    """Load the code locations of a `workspace.yaml`; a new request context of the result has their current state."""
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget

    with WorkspaceProcessContext(
        instance, WorkspaceFileTarget([str(file)]), code_server_log_level="warning"
    ) as context:
        yield context


def load_errors(context: Any) -> list[str]:
    entries = context.get_code_location_entries().values()
    return [entry.load_error.message.strip() for entry in entries if entry.load_error]


def submit(
    instance: dg.DagsterInstance, locations: Any, context: Any, keys: Sequence[dg.AssetKey], tags: Mapping[str, str]
) -> str:
    """Submit a run that materialises assets; return its id."""
    from dagster._core.execution.submit_asset_runs import submit_asset_run

    request = dg.RunRequest(asset_selection=list(keys), tags=dict(tags))
    log = logging.getLogger(__name__)
    run = asyncio.run(submit_asset_run(None, request, 0, instance, locations, context, {}, {}, log))
    return run.run_id


def is_daemon_alive(instance: dg.DagsterInstance, daemon: str) -> bool:
    """Return whether a Dagster daemon has had a recent heartbeat."""
    from dagster._daemon.controller import get_daemon_statuses

    return bool(get_daemon_statuses(instance, [daemon])[daemon].healthy)


def dev_module() -> Any:
    from dagster._cli import dev

    return dev

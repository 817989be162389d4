"""Differences between the profiles: the executor of steps, and the settings in `dagster.yaml`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import dagster as dg

from disent_assets.settings.environment import ONE_THREAD, RunSettings, database, is_local, passed_on
from disent_assets.settings.profiles.retry_database import retried

_FOLDER = Path(__file__).parent


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

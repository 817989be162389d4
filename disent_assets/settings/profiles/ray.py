"""The executor of the profiles `ray` and `slurm`: every step is a job of Ray, on a machine with what it asks for."""

import dagster as dg
from dagster_ray import ray_executor  # pyright: ignore[reportMissingImports] - of the extra ray

from disent_assets.settings.environment import ONE_THREAD, passed_on
from disent_assets.settings.profiles.retry_database import retrying_executor


def executor() -> dg.ExecutorDefinition:
    """Ray's executor. What it said of processors and GPUs would replace, in dagster-ray 0.4.8, what steps ask for."""
    one_thread = [f"{name}={value}" for name, value in ONE_THREAD.items()]
    return retrying_executor(ray_executor.configured({"ray": {"env_vars": [*passed_on(), *one_thread]}}))

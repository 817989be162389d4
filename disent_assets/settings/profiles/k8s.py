"""The executor of the profile `k8s`: every step is a Job. Image, namespace and secrets are those of the run's pod."""

import dagster as dg
from dagster_k8s import k8s_job_executor  # pyright: ignore[reportMissingImports] - of the extra k8s

from disent_assets.settings.environment import ONE_THREAD, passed_on
from disent_assets.settings.profiles.retry_database import retrying_executor


def executor() -> dg.ExecutorDefinition:
    """Kubernetes' executor, which takes the rest from the launcher of the run."""
    names = [name for name in passed_on() if name != "PATH"]  # of the image
    one_thread = [f"{name}={value}" for name, value in ONE_THREAD.items()]
    return retrying_executor(k8s_job_executor.configured({"env_vars": [*names, *one_thread]}))

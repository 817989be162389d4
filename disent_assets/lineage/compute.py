"""Where a step runs: what it asks of a cluster, told once for Ray and for Kubernetes, or its pool on one machine."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from disent_assets.settings.environment import is_local, step_share
from disent_core.config.model import Config

GPU_POOL = "gpu"
"""Pool of the steps that use the accelerator; `dagster.yaml` limits how many of them run at once."""
GPU_DRIVERS = ("nvidia*", "nvhost-gpu", "kfd", "dxg")
"""Device files of GPUs under Linux: of CUDA, of CUDA on Jetson, of ROCm, and of both under Windows."""


@dataclass(frozen=True)
class Place:
    """Where a step runs.

    Attributes:
        device: `cpu`, or `cuda` if it takes the accelerator of this machine.
        pool: limits how many of its kind run at once on one machine; a cluster counts GPUs itself.
        tags: what it asks of Ray and of Kubernetes.
    """

    device: str
    pool: str | None
    tags: Mapping[str, Any]


def on_processor(memory: float) -> Place:
    """The place of a step that uses no accelerator, with so many GB of memory."""
    return Place("cpu", None, _tags(0.0, memory * step_share()[1]))


def on_device(config: Config, memory: float) -> Place:
    """The place of a step that uses the accelerator, if there is one, with so many GB of memory."""
    gpus, factor = step_share()
    may_use, has = config.experiment.device != "cpu", device_pool(config) is not None
    pool = GPU_POOL if has and is_local() else None
    return Place("cuda" if has else "cpu", pool, _tags(gpus * may_use, memory * factor))


def device_pool(config: Config) -> str | None:
    """The pool of steps that take the whole accelerator; None on a CPU, where steps can run side by side."""
    return GPU_POOL if config.experiment.device != "cpu" and _has_gpu() else None


@cache
def _has_gpu() -> bool:
    """Whether torch can use a GPU. On Linux torch, which takes a second to load, is asked only if there is a driver."""
    if sys.platform == "linux" and not any(any(Path("/dev").glob(pattern)) for pattern in GPU_DRIVERS):
        return False
    import torch

    return torch.cuda.is_available()


def _tags(gpus: float, memory: float) -> dict[str, Any]:
    """Ray starts an entry point that asks for nothing on the head, hence the processor. Kubernetes shares no GPU.

    A Job never starts a second pod: Dagster would take the end of that one for the end of the step
    (https://github.com/dagster-io/dagster/issues/33755). Dagster's own retries begin it anew.
    """
    asked = {"cpu": "1", "memory": f"{math.ceil(memory * 1024)}Mi"}
    limits = {"memory": asked["memory"], **({"nvidia.com/gpu": str(math.ceil(gpus))} if gpus else {})}
    pod = {"tolerations": [{"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "disent/spot")]}
    return {
        "dagster-ray/config": {
            "num_cpus": 1,
            "memory": math.ceil(memory * 2**30),
            **({"num_gpus": gpus} if gpus else {}),
        },
        "dagster-k8s/config": {
            "container_config": {"resources": {"requests": asked, "limits": limits}},
            "job_spec_config": {"backoff_limit": 0},
            **({"pod_spec_config": pod} if gpus else {}),
        },
    }

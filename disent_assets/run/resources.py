"""Request processors, memory and GPUs from Ray and Kubernetes: once for all partitions, and again for each launch."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from disent_assets.run.step import partitions_of
from disent_assets.run.steps import steps_in
from disent_assets.settings.environment import memory_limit, step_share
from disent_core.lineage.state import Records
from disent_core.lineage.step import Partition, Step
from disent_core.lineage.workspace import Key, Workspace

GB_A_ROW = 2e-6
"""Memory per row of the largest input: 1.9 kB for an aligned sentence pair, 1.5 kB for a vector of 384 dimensions."""
GB_OF_PROGRAM = 1.0
ABOVE_PEAK = 1.25
"""Request as a multiple of the recorded peak, which differs from run to run."""


def requests(gpus: float, memory: float) -> dict[str, Any]:
    """Return a step's requests as Dagster's tags: a processor, memory in GB, and maybe a GPU or a share of one.

    Ray starts entry points without requests on the head node, hence the processor. Kubernetes does not share GPUs. A
    Job never starts a second pod: Dagster would take its end for the end of the step
    (https://github.com/dagster-io/dagster/issues/33755). Dagster's own retries restart the step.
    """
    asked = {"cpu": "1", "memory": f"{math.ceil(memory * 1024)}Mi"}
    limits: dict[str, str] = {"memory": asked["memory"]}
    ray: dict[str, Any] = {"num_cpus": 1, "memory": math.ceil(memory * 2**30)}
    k8s: dict[str, Any] = {
        "container_config": {"resources": {"requests": asked, "limits": limits}},
        "job_spec_config": {"backoff_limit": 0},
    }
    if gpus:
        limits["nvidia.com/gpu"] = str(math.ceil(gpus))
        ray["num_gpus"] = gpus
        tainted = ("nvidia.com/gpu", "disent/spot")
        k8s["pod_spec_config"] = {"tolerations": [{"key": key, "operator": "Exists"} for key in tainted]}
    return {"dagster-ray/config": ray, "dagster-k8s/config": k8s}


class Launch:
    """A launch of a step: Dagster's `StepHandlerContext`, whose tags request the memory that its partitions need.

    Each further attempt requests twice as much, since the last one may have been killed for its memory. No request
    exceeds `DISENT_MEMORY_LIMIT`: no machine could take it, and the step would wait for ever.
    """

    def __init__(self, workspace: Workspace, names: Mapping[str, Key], context: Any) -> None:
        self.workspace, self.names, self.context = workspace, names, context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    @property
    def step_tags(self) -> dict[str, Mapping[str, str]]:
        """Tags by name of a step; there is one."""
        return {name: self._tags(name, tags) for name, tags in self.context.step_tags.items()}

    def _tags(self, name: str, tags: Mapping[str, str]) -> Mapping[str, str]:
        if name not in self.names:  # the refresh, which waits for steps
            return tags
        state = self.context.execute_step_args.known_state
        attempts = state.get_retry_state().get_attempt_count(name) if state else 0
        memory = memory_of(self.workspace, self.names[name], partitions_of(self.context.dagster_run.tags), attempts)
        gpus = json.loads(tags["dagster-ray/config"]).get("num_gpus", 0)
        return {**tags, **{tag: json.dumps(value) for tag, value in requests(gpus, memory).items()}}


def memory_of(workspace: Workspace, key: Key, partitions: Sequence[Partition], attempts: int = 0) -> float:
    """Return the GB to request for partitions of a step after so many attempts."""
    records = Records(workspace, steps_in(workspace))
    step = records.step_of[key]
    needed = max(step.memory, *(_memory_needed(records, step, partition) for partition in partitions or [None]))
    return min(needed * step_share()[1] * 2**attempts, memory_limit())


def _memory_needed(records: Records, step: Step, partition: Partition) -> float:
    inputs = [(records.step_of[key], name) for key, name in step.parents(partition) if key in records.step_of]
    costs = [record.cost for parent in inputs if (record := records.of(*parent)) and record.cost]
    rows = max((cost["rows"] or 0 for cost in costs), default=0)
    record = records.of(step, partition)
    peak = (record.cost["peak_memory"] or 0) if record and record.cost else 0
    return max(GB_OF_PROGRAM + rows * GB_A_ROW, peak / 2**30 * ABOVE_PEAK)

"""Run the steps of a plan, independent ones side by side, and go on past a failure with what does not depend on it."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from graphlib import TopologicalSorter

import dagster as dg
from dagster._core.definitions.data_version import StaleStatus

from disent_assets.asset_state import record_states
from disent_assets.durations import STARTING_WORKERS, expected_seconds, read_seconds, write_seconds
from disent_assets.estimate import Estimate
from disent_assets.instance import BEGAN
from disent_assets.plan import Step
from disent_assets.run_step import Outcome
from disent_assets.staleness import staleness
from disent_assets.status import State, stale_inputs
from disent_assets.workers import Executor, Load, Processes, ThisProcess, Work, one_thread
from disent_core.experiment.workspace import Workspace

AT_ONCE = 16
"""Steps that are submitted at once, by default."""


class Report:
    """What a run tells about itself while it goes on; this one ignores it."""

    def start(self, steps: Sequence[Step], seconds: Mapping[str, float], workers: int) -> None:
        """The run starts: so many workers run these steps, whose expected durations are given by name."""

    def begin(self, step: Step) -> None:
        """A step begins."""

    def end(self, step: Step, outcome: Outcome) -> None:
        """A step has ended."""

    def block(self, step: Step) -> None:
        """A step can't be run, because something that it needs has failed."""

    def log(self, step: Step, level: int, text: str) -> None:
        """A step logs a line."""

    def tick(self) -> None:
        """Called often, and after every step. What it raises stops the run."""


@dataclass
class Result:
    """What came of all steps; those that can't be run are `blocked`. `stale_inputs` is what the steps are made from
    and none of them makes, as far as it is not fresh."""

    outcomes: dict[Step, Outcome] = field(default_factory=dict)
    blocked: list[Step] = field(default_factory=list)
    stale_inputs: list[State] = field(default_factory=list)

    @property
    def failed(self) -> dict[Step, str]:
        """The steps that failed, with the reason."""
        return {step: one.failure for step, one in self.outcomes.items() if one.failure is not None}

    def summary(self, seconds: float) -> str:
        """The counts of all steps."""
        made, reused, encoded, steps = (
            sum(counts)
            for counts in zip(
                *((one.made, one.reused, one.encoded, one.steps) for one in self.outcomes.values()), strict=True
            )
        )
        return (
            f"{made} tables made, {reused} up to date; {encoded} texts encoded, {steps} steps trained; {seconds:.1f} s"
        )

    @property
    def warnings(self) -> dict[str, list[Step]]:
        """The checks that failed but stop nothing, each with its steps."""
        warnings: dict[str, list[Step]] = {}
        for step, outcome in self.outcomes.items():
            for text in outcome.warnings:
                warnings.setdefault(text, []).append(step)
        return warnings


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def run_steps(
    load: Load,
    workspace: Workspace,
    steps: Sequence[Step],
    instance: dg.DagsterInstance,
    *,
    workers: int | None = 1,
    report: Report | None = None,
    tags: Mapping[str, str] | None = None,
    submits: bool = False,
) -> Result:
    """Run steps in the order that their dependencies allow, up to `workers` at once; then record all states.

    One worker runs them in this process; so does any number if at most one can change, for the others are looked at.

    Args:
        load: makes the definitions of a workspace, here and in the workers.
        workspace: to run in.
        steps: as `plan` gives them, or some of them.
        instance: records the runs.
        workers: how many steps run at once; None for one a core, or one if more would save less than they cost, and
            for `AT_ONCE` that are submitted.
        report: is told what happens.
        tags: of the runs.
        submits: whether steps run elsewhere, wherever the profile has them run.
    """
    report, tags = report or Report(), {BEGAN: datetime.now(UTC).isoformat(), **(tags or {})}
    definitions = load(workspace)
    fresh = fresh_steps(definitions, steps, instance)
    settled = _settled(steps, fresh)
    seconds = expected_seconds(steps, workspace.config, read_seconds(workspace.home), settled)
    schedule = Schedule(steps, fresh, seconds)
    default = AT_ONCE if submits else worthwhile_workers(steps, seconds)
    count = max(1, min(workers or default, len(steps) - len(settled)))
    report.start(steps, seconds, count)
    if workers != 1 and not submits:
        one_thread()
    executor: Executor
    if submits:
        from disent_assets.submitted import Submitted  # loads what local runs need not

        executor = Submitted(workspace, instance, tags, count, report.log)
    elif count > 1:
        executor = Processes(Work.of(load, workspace, tags), instance, count, report.log)
    else:
        executor = ThisProcess(definitions, instance, tags, report.log)
    measured: dict[str, float] = {}
    try:
        with closing(executor):
            _work(schedule, executor, report, measured)
    finally:
        write_seconds(workspace.home, measured)
    found = record_states(workspace, definitions, instance)
    made = [(key.to_user_string(), step.partition) for step in steps for key in step.keys]
    schedule.result.stale_inputs = stale_inputs(definitions.resolve_asset_graph(), instance, made, found)
    return schedule.result


def worthwhile_workers(steps: Sequence[Step], seconds: Mapping[str, float]) -> int:
    """The number of workers: one for each core, or one if those would take longer to start than they save."""
    cores = usable_cores()
    saved = Estimate(steps, seconds, 1).left(0.0) - Estimate(steps, seconds, cores).left(0.0)
    return cores if saved > STARTING_WORKERS else 1


def _work(schedule: "Schedule", executor: Executor, report: Report, measured: dict[str, float]) -> None:
    began: dict[Step, float] = {}
    while True:
        while executor.is_free() and (step := schedule.next()) is not None:
            began[step] = time.monotonic()
            report.begin(step)
            executor.start(step, is_fresh=step in schedule.fresh)
        if not schedule.running:
            return
        for step, outcome in executor.ended():
            report.tick()  # a step that was interrupted is no failure
            for blocked in schedule.end(step, outcome):
                report.block(blocked)
            report.end(step, outcome)
            if outcome.made and outcome.failure is None:
                measured[step.name] = time.monotonic() - began[step]
        report.tick()


def fresh_steps(definitions: dg.Definitions, steps: Sequence[Step], instance: dg.DagsterInstance) -> set[Step]:
    """The steps whose assets Dagster all holds for fresh."""
    resolver = staleness(instance, definitions.resolve_asset_graph())
    return {
        step
        for step in steps
        if all(resolver.get_status(key, step.partition) == StaleStatus.FRESH for key in step.keys)
    }


def _settled(steps: Sequence[Step], fresh: set[Step]) -> set[Step]:
    """The fresh steps that depend on fresh ones only, so that nothing can change them."""
    settled: dict[str, Step] = {}
    names = {step.name for step in steps}
    for step in steps:
        if step in fresh and (step.after & names) <= settled.keys():
            settled[step.name] = step
    return set(settled.values())


class Schedule:
    """The order of steps: what can run now, and what can't any more.

    A step of a partition needs everything that it depends on. A step without partitions gathers: it runs with what
    there is, unless everything that it depends on has failed. If the disk fails, nothing else begins.
    """

    def __init__(self, steps: Sequence[Step], fresh: set[Step], seconds: Mapping[str, float]) -> None:
        self.by_name = {step.name: step for step in steps}
        self.waits_for = {step: {self.by_name[name] for name in step.after & set(self.by_name)} for step in steps}
        self.open = {step: set(upstream) for step, upstream in self.waits_for.items()}
        self.fresh = set(fresh)
        self.running: set[Step] = set()
        self.lost: set[Step] = set()
        self.result = Result()
        self.way = self._ways(seconds)

    def _ways(self, seconds: Mapping[str, float]) -> dict[Step, float]:
        """Step -> expected time of the longest chain of steps that begins with it."""
        below: dict[Step, list[Step]] = {step: [] for step in self.open}
        for step, upstream in self.waits_for.items():
            for one in upstream:
                below[one].append(step)
        way: dict[Step, float] = {}
        for step in TopologicalSorter(below).static_order():
            way[step] = seconds.get(step.name, 1.0) + max((way[one] for one in below[step]), default=0.0)
        return way

    def next(self) -> Step | None:
        """Begin the step to run now; None if none can."""
        is_taken = any(step.uses_device for step in self.running)
        ready = [step for step, open in self.open.items() if not open and not (is_taken and step.uses_device)]
        if not ready:
            return None
        step = max(ready, key=lambda step: self.way[step])  # of equals the first, as in the plan
        del self.open[step]
        self.running.add(step)
        return step

    def end(self, step: Step, outcome: Outcome) -> Iterator[Step]:
        """End a step; gives the steps that can't run any more."""
        self.running.discard(step)
        self.result.outcomes[step] = outcome
        yield from self._close(step, is_lost=outcome.failure is not None, is_changed=outcome.changed)
        if outcome.is_of_disk:
            blocked, self.open = list(self.open), {}
            self.result.blocked += blocked
            yield from blocked

    def _close(self, step: Step, *, is_lost: bool, is_changed: bool) -> Iterator[Step]:
        self.lost |= {step} if is_lost else set()
        for other in [other for other, open in self.open.items() if step in open]:
            self.open[other].discard(step)
            self.fresh -= {other} if is_changed else set()
            if other in self.open and not self.open[other] and self._is_blocked(other):
                del self.open[other]
                self.result.blocked.append(other)
                yield other
                yield from self._close(other, is_lost=True, is_changed=False)

    def _is_blocked(self, step: Step) -> bool:
        lost = self.waits_for[step] & self.lost
        return bool(lost) and (step.partition is not None or lost == self.waits_for[step])

"""Run the steps of a plan, independent ones in parallel; after a failure, continue with what does not depend on it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

import dagster as dg

from disent_assets.counted import counted
from disent_assets.run.fork_server import most_workers
from disent_assets.run.plan import AssetStep, StepRun
from disent_assets.run.step import Outcome, record_failure
from disent_assets.run.steps import steps_in
from disent_assets.run.workers import Executor, Load, Processes, ThisProcess, Work, one_thread
from disent_core.lineage.state import State, name_of, read_record
from disent_core.lineage.workspace import Workspace
from disent_core.storage.remote import LOOK_SECONDS, looking

AT_ONCE = 16  # default number of steps submitted at once
STARTING_WORKERS = 6.0  # processor seconds to start two workers, which a single process saves
LOOK = 0.05  # seconds to check the files of a fresh step
FIRST_TIME = {"embeddings": 15.0, "heads": 15.0, "evaluation": 3.0, "exports": 15.0, "warehouse": 5.0}
"""Expected seconds of a stage's step that has never made anything; 1 for other stages."""


class Report:
    """Receives the events of a run; this base class ignores them."""

    def start(self, steps: Sequence[StepRun], seconds: Mapping[str, float], workers: int) -> None:
        """`workers` workers begin to run these steps; `seconds` has the expected durations by name."""

    def begin(self, step: StepRun) -> None:
        """A step begins."""

    def end(self, step: StepRun, outcome: Outcome) -> None:
        """A step has ended."""

    def block(self, step: StepRun) -> None:
        """A step can't run because something that it needs has failed."""

    def log(self, step: StepRun, level: int, text: str) -> None:
        """A step logs a line."""

    def tick(self) -> None:
        """Called often, and after every step. Raising an exception stops the run."""


@dataclass
class Result:
    """Outcomes of all steps; those that can't run are `blocked`."""

    outcomes: dict[StepRun, Outcome] = field(default_factory=dict)
    blocked: list[StepRun] = field(default_factory=list)
    stale_inputs: list[State] = field(default_factory=list)

    @property
    def failed(self) -> dict[StepRun, str]:
        """The steps that failed, with the reason."""
        return {step: outcome.failure for step, outcome in self.outcomes.items() if outcome.failure is not None}

    def summary(self, seconds: float) -> str:
        ended = self.outcomes.values()
        made, reused = sum(outcome.made for outcome in ended), sum(outcome.reused for outcome in ended)
        encoded, steps = sum(outcome.encoded for outcome in ended), sum(outcome.steps for outcome in ended)
        tables = f"{counted(made, 'table')} made, {reused:,} up to date"
        return f"{tables}; {counted(encoded, 'text')} encoded, {counted(steps, 'step')} trained; {seconds:.1f} s"

    @property
    def warnings(self) -> dict[str, list[StepRun]]:
        """The failed checks that do not stop anything, each with its steps."""
        warnings: dict[str, list[StepRun]] = {}
        for step, outcome in self.outcomes.items():
            for text in outcome.warnings:
                warnings.setdefault(text, []).append(step)
        return warnings


def run_steps(
    load: Load,
    workspace: Workspace,
    steps: Sequence[AssetStep],
    runs: Sequence[StepRun],
    states: Sequence[State],
    *,
    workers: int | None = 1,
    report: Report | None = None,
    submitted_by: tuple[dg.DagsterInstance, Mapping[str, str]] | None = None,
) -> Result:
    """Run steps in dependency order, up to `workers` at once.

    A single worker is this process, as it is for any number if at most one step can change: others are only checked.
    With None, it is one per core, or one if more would not pay off; for submitted steps, `AT_ONCE`. `runs` is the plan,
    or a part of it; `states` are those of all partitions before; `submitted_by` has the instance and the tags of the
    runs, if the profile runs the steps elsewhere. `load` makes the definitions of a workspace, in the workers.
    """
    report, by_key = report or Report(), {step.key: step for step in steps}
    fresh = fresh_runs(runs, states)
    settled: set[str] = set()  # a fresh step that depends only on settled ones can't change
    names = {run.name for run in runs}
    for run in runs:
        settled |= {run.name} if run in fresh and run.after & names <= settled else set()
    seconds = expected_seconds(runs, recorded_seconds(workspace), settled)
    schedule = Schedule(runs, fresh, seconds)
    default = AT_ONCE if submitted_by else worthwhile_workers(seconds)
    count = max(1, min(workers or default, len(runs) - len(settled)))
    report.start(runs, seconds, count)
    executor: Executor
    if submitted_by:
        from disent_assets.run.submitted import Submitted  # loads what local runs don't need

        executor = Submitted(workspace, by_key, *submitted_by, count, report.log, seconds)
    elif count > 1:
        executor = Processes(Work.of(load, workspace), count, report.log)
    else:
        if workers != 1:
            one_thread()  # as in a worker
        executor = ThisProcess(workspace, by_key, report.log)
    with closing(executor):
        for step, outcome in _ended(schedule, executor, report):
            if outcome.failure is not None:
                record_failure(workspace, step, outcome.failure)
    return schedule.result


def _ended(schedule: "Schedule", executor: Executor, report: Report) -> Iterator[tuple[StepRun, Outcome]]:
    while True:
        while executor.is_free() and (step := schedule.next()) is not None:
            report.begin(step)
            executor.start(step, is_fresh=step in schedule.fresh)
        if not schedule.running:
            return
        for step, outcome in executor.ended():
            report.tick()  # an interrupted step is not a failure
            yield step, outcome
            for blocked in schedule.end(step, outcome):
                report.block(blocked)
            report.end(step, outcome)
        report.tick()


# --- what to expect ---------------------------------------------------------------------------------------


def fresh_runs(runs: Sequence[StepRun], states: Sequence[State]) -> set[StepRun]:
    """Return the steps whose assets are all fresh."""
    fresh = {(state.asset, state.partition) for state in states if state.status == "fresh"}
    return {run for run in runs if all(("/".join(key), run.partition) in fresh for key in run.outputs)}


def recorded_seconds(workspace: Workspace) -> dict[str, float]:
    """Return, by name, the seconds that steps took when they last made something."""
    nodes = [(step.key, name) for step in steps_in(workspace) for name in step.partitions or [None]]
    with looking(workspace.home, LOOK_SECONDS):
        records = {node: read_record(workspace, *node) for node in nodes}
    return {name_of(node): record.seconds for node, record in records.items() if record and record.seconds}


def expected_seconds(
    runs: Sequence[StepRun], recorded: Mapping[str, float], settled: Collection[str] = ()
) -> dict[str, float]:
    """Return each step's expected seconds by name: those of the last time, or the default of its stage."""
    usual = {run.name: FIRST_TIME.get(run.key[0], 1.0) for run in runs}
    return {name: LOOK if name in settled else recorded.get(name, seconds) for name, seconds in usual.items()}


def worthwhile_workers(seconds: Mapping[str, float]) -> int:
    """Return one worker per core, or one if starting more would take longer than they save."""
    cores = most_workers()
    return cores if sum(seconds.values()) * (1 - 1 / cores) > STARTING_WORKERS else 1


# --- order ------------------------------------------------------------------------------------------------


class Schedule:
    """The order of steps: which can run now, and which no longer can.

    A step of a partition needs all its dependencies. A step without partitions gathers: it runs with what exists,
    unless all its dependencies have failed. If the disk fails, nothing else begins.
    """

    def __init__(self, steps: Sequence[StepRun], fresh: set[StepRun], seconds: Mapping[str, float]) -> None:
        self.by_name = {step.name: step for step in steps}
        self.waits_for = {step: {self.by_name[name] for name in step.after & set(self.by_name)} for step in steps}
        self.open = {step: set(upstream) for step, upstream in self.waits_for.items()}
        self.fresh = set(fresh)
        self.running: set[StepRun] = set()
        self.lost: set[StepRun] = set()
        self.result = Result()
        self.way = self._ways(seconds)

    def _ways(self, seconds: Mapping[str, float]) -> dict[StepRun, float]:
        """Return the expected time of the longest chain of steps that begins with each."""
        below: dict[StepRun, list[StepRun]] = {step: [] for step in self.open}
        for step, upstream in self.waits_for.items():
            for above in upstream:
                below[above].append(step)
        way: dict[StepRun, float] = {}
        for step in TopologicalSorter(below).static_order():
            way[step] = seconds.get(step.name, 1.0) + max((way[other] for other in below[step]), default=0.0)
        return way

    def next(self) -> StepRun | None:
        """Begin and return the step with the longest chain ahead of it; None if no step can begin."""
        is_taken = any(step.uses_device for step in self.running)
        ready = [step for step, open in self.open.items() if not open and not (is_taken and step.uses_device)]
        if not ready:
            return None
        step = max(ready, key=lambda step: self.way[step])  # ties: the first in the plan
        del self.open[step]
        self.running.add(step)
        return step

    def end(self, step: StepRun, outcome: Outcome) -> Iterator[StepRun]:
        """End a step; return the steps that can no longer run."""
        self.running.discard(step)
        self.result.outcomes[step] = outcome
        yield from self._close(step, is_lost=outcome.failure is not None, is_changed=outcome.changed)
        if outcome.is_of_disk:
            blocked, self.open = list(self.open), {}
            self.result.blocked += blocked
            yield from blocked

    def _close(self, step: StepRun, *, is_lost: bool, is_changed: bool) -> Iterator[StepRun]:
        self.lost |= {step} if is_lost else set()
        for other in [other for other, open in self.open.items() if step in open]:
            self.open[other].discard(step)
            self.fresh -= {other} if is_changed else set()
            lost = self.waits_for[other] & self.lost
            is_blocked = lost and (other.partition is not None or lost == self.waits_for[other])
            if other in self.open and not self.open[other] and is_blocked:
                del self.open[other]
                self.result.blocked.append(other)
                yield other
                yield from self._close(other, is_lost=True, is_changed=False)

"""Show the progress of a run of many steps: live in a terminal, as plain lines in a file, as Dagster events."""

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import dagster as dg
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from disent_assets.run.plan import AssetStep, StepRun
from disent_assets.run.runner import LOOK, Report
from disent_assets.run.step import DATA_VERSION, Event, Outcome, log_news
from disent_core.lineage.state import name_of, read_record
from disent_core.lineage.workspace import Key, Workspace
from disent_core.progress import seconds_left
from disent_core.storage.tables import fingerprint
from disent_core.text import printable

LINE_EVERY = 30.0  # seconds between lines of one step, if the output is not a terminal
_TITLE = re.compile(r"^[^:]*: (?=\d+ )")


class Done:
    """How much of a run is done, in expected seconds.

    The share done of a running step follows from the time left that it logs, or else from its expected time, and is at
    most nine tenths.
    """

    def __init__(self, seconds: Mapping[str, float], workers: int) -> None:
        self.seconds, self.workers = seconds, workers
        self.total = sum(seconds.values())
        self.running: dict[str, float] = {}  # start times
        self.ends: dict[str, float] = {}  # end times of running steps, from their log lines
        self.ended: set[str] = set()
        self.first: float | None = None  # start of the first step: Dagster's own start does not measure speed

    def begin(self, step: StepRun, now: float) -> None:
        self.running[step.name] = now
        self.first = now if self.first is None else self.first

    def hear(self, step: StepRun, text: str, now: float) -> None:
        """Record the time left, if a step's log line has it."""
        if (left := seconds_left(text)) is not None:
            self.ends[step.name] = now + left

    def end(self, step: StepRun) -> None:
        self.running.pop(step.name, None)
        self.ended.add(step.name)

    def done(self, now: float) -> float:
        """Return the expected seconds of ended steps, plus those of the finished shares of running steps."""
        return sum(self.seconds[name] * self._share(name, now) for name in (*self.ended, *self.running))

    def _share(self, name: str, now: float) -> float:
        if name in self.ended:
            return 1.0
        began = self.running[name]
        whole = self.ends[name] - began if name in self.ends else self.seconds[name]
        return min(0.9, (now - began) / max(whole, 1e-3))

    def left(self, now: float) -> float:
        """Return the seconds left at the speed so far (expected seconds per second)."""
        done = self.done(now)
        prior = 0.03 * self.total  # the expected speed has the weight of this part of the run
        passed = 0.0 if self.first is None else now - self.first
        speed = (done + prior) / (passed + prior / self.workers) if self.total else 1.0
        return max(self.total - done, 0.0) / speed

    def shown(self, now: float) -> str:
        percent = 100 if len(self.ended) == len(self.seconds) else int(99 * self.done(now) / max(self.total, 1e-3))
        steps = f"{len(self.ended)} of {len(self.seconds)} steps"
        return f"{steps}, {percent} %, {duration(now)}, about {duration(self.left(now))} left"


class Shown(Report):
    """Follows the steps of a run; subclasses show them. `check` is called often, and may raise to stop the run."""

    def __init__(self, check: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic) -> None:
        self.check, self.clock, self.started = check, clock, clock()
        self.done = Done({}, 1)
        self.began: dict[StepRun, float] = {}
        self.warned: set[str] = set()

    def start(self, steps: Sequence[StepRun], seconds: Mapping[str, float], workers: int) -> None:
        self.done = Done(seconds, workers)

    def begin(self, step: StepRun) -> None:
        self.began[step] = self.now
        self.done.begin(step, self.now)

    def end(self, step: StepRun, outcome: Outcome) -> None:
        self.done.end(step)

    def block(self, step: StepRun) -> None:
        self.done.end(step)

    def log(self, step: StepRun, level: int, text: str) -> None:
        self.done.hear(step, text, self.now)

    def tick(self) -> None:
        self.check()

    def close(self) -> None:
        """Remove what should not stay on screen."""

    def is_new_warning(self, level: int, text: str) -> bool:
        """Return whether a line is a warning not logged before by any step: several steps may read one file."""
        is_new = level >= logging.WARNING and text not in self.warned
        self.warned |= {text} if is_new else set()
        return is_new

    def took(self, step: StepRun) -> str:
        return duration(self.now - self.began[step])

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started


class Lines(Shown):
    """Plain lines: one when a step begins and ends, and occasional ones in between."""

    def __init__(
        self,
        check: Callable[[], None],
        file: TextIO,
        clock: Callable[[], float] = time.monotonic,
        every: float = LINE_EVERY,
    ) -> None:
        super().__init__(check, clock)
        self.file, self.every = file, every
        self.last: dict[StepRun, float] = {}

    def begin(self, step: StepRun) -> None:
        super().begin(step)
        self.last[step] = self.now
        if not self._is_look(step):
            self._write(f"{step}: begins ({self.done.shown(self.now)})")

    def end(self, step: StepRun, outcome: Outcome) -> None:
        super().end(step, outcome)
        if not self._is_look(step) or outcome.made or outcome.failure:
            state = "failed" if outcome.failure else "done" if outcome.made else "up to date"
            self._write(f"{step}: {state} after {self.took(step)}")

    def log(self, step: StepRun, level: int, text: str) -> None:
        super().log(step, level, text)
        if self.is_new_warning(level, text):
            self._write(f"{step}: {printable(text)}")
        elif level < logging.WARNING and self.now - self.last.get(step, 0.0) >= self.every:
            self.last[step] = self.now
            self._write(f"{step}: {printable(_TITLE.sub('', text))} ({self.done.shown(self.now)})")

    def _is_look(self, step: StepRun) -> bool:
        return self.done.seconds.get(step.name, 0.0) <= LOOK

    def _write(self, text: str) -> None:
        self.file.write(f"{text}\n")
        self.file.flush()


class Display(Shown):
    """A line for each running step and one for the whole run, kept below the terminal's log lines."""

    def __init__(
        self, check: Callable[[], None], console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(check, clock)
        self.console = console
        name, latest = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[latest]}", markup=False)
        columns = name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), latest
        self.bars = Progress(*columns, console=console, transient=True, refresh_per_second=4, speed_estimate_period=120)
        self.tasks: dict[StepRun, TaskID] = {}
        self.whole: TaskID | None = None

    def start(self, steps: Sequence[StepRun], seconds: Mapping[str, float], workers: int) -> None:
        super().start(steps, seconds, workers)
        self.whole = self.bars.add_task("", total=self.done.total, latest="")
        self.bars.start()
        self.tick()

    def begin(self, step: StepRun) -> None:
        super().begin(step)
        self.tasks[step] = self.bars.add_task(str(step), total=None, latest="")

    def log(self, step: StepRun, level: int, text: str) -> None:
        super().log(step, level, text)
        if self.is_new_warning(level, text):
            self.console.print(Text(f"{step}: {printable(text)}"))
        elif step in self.tasks:
            self.bars.update(self.tasks[step], latest=printable(_TITLE.sub("", text)))

    def end(self, step: StepRun, outcome: Outcome) -> None:
        super().end(step, outcome)
        self.bars.remove_task(self.tasks.pop(step))
        if outcome.failure:
            self.console.print(Text(f"{step}: failed after {self.took(step)}"))

    def tick(self) -> None:
        if self.whole is not None:
            steps = f"{len(self.done.ended)} of {len(self.done.seconds)} steps"
            self.bars.update(self.whole, completed=self.done.done(self.now), description=steps)
        super().tick()

    def close(self) -> None:
        self.bars.stop()


def new_progress(check: Callable[[], None], *, every_line: bool) -> Shown:
    """Return the progress display that fits stderr or, with `every_line`, plain lines with all log lines."""
    if every_line or not sys.stderr.isatty():
        return Lines(check, sys.stderr, every=0.0 if every_line else LINE_EVERY)
    return Display(check, Console(stderr=True))


def duration(seconds: float) -> str:
    """Return a time in at most two units: `8 s`, `3 min`, `2 h 5 min`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


# --- the log of a run of Dagster --------------------------------------------------------------------------------------

REUSED_AT_ONCE = 25  # up-to-date steps in one line of the log


class RunLog(Shown):
    """Writes the log of a run, and the steps' results as its events; also forwards everything to `shown`."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        workspace: Workspace,
        steps: Mapping[Key, AssetStep],
        shown: Report | None = None,
    ) -> None:
        super().__init__()
        self.context, self.workspace, self.steps = context, workspace, steps
        self.shown = shown or Report()
        self.reused: list[str] = []
        self.last: dict[StepRun, float] = {}
        self.known: dict[dg.AssetKey, dict[str | None, str | None]] = {}

    def start(self, steps: Sequence[StepRun], seconds: Mapping[str, float], workers: int) -> None:
        super().start(steps, seconds, workers)
        self.shown.start(steps, seconds, workers)
        self.context.log.info(f"{self.done.shown(self.now)}, {workers} at once" if steps else "nothing is stale")

    def begin(self, step: StepRun) -> None:
        super().begin(step)
        self.shown.begin(step)
        self.last[step] = self.now

    def end(self, step: StepRun, outcome: Outcome) -> None:
        super().end(step, outcome)
        self.shown.end(step, outcome)
        self.report(step, outcome.events, is_news=outcome.is_news)
        if outcome.failure is not None:
            self.context.log.error("%s: %s", step, outcome.failure)
        elif outcome.made:
            made = f"{outcome.made} of {len(step.outputs)} made" if outcome.reused else "made"
            self.context.log.info("%s: %s in %s (%s)", step, made, self.took(step), self.done.shown(self.now))
        else:
            self.reused.append(step.name)
        is_last = len(self.done.ended) == len(self.done.seconds)
        if self.reused and (is_last or len(self.reused) == REUSED_AT_ONCE):
            self.context.log.info("up to date: %s (%s)", ", ".join(self.reused), self.done.shown(self.now))
            self.reused = []

    def block(self, step: StepRun) -> None:
        super().block(step)
        self.shown.block(step)
        self.context.log.warning("%s: not made, because something that it needs has failed", step)

    def log(self, step: StepRun, level: int, text: str) -> None:
        super().log(step, level, text)
        self.shown.log(step, level, text)
        is_due = level < logging.WARNING and self.now - self.last.get(step, 0.0) >= LINE_EVERY
        if self.is_new_warning(level, text) or is_due:
            self.last[step] = self.now
            self.context.log.log(level, "%s: %s", step, text)

    def tick(self) -> None:
        self.shown.tick()

    def report(self, step: StepRun, events: Sequence[Event], *, is_news: bool) -> None:
        """Report assets and their checks, unless Dagster knows them.

        The external assets of a step come before the step's outputs: if a run is killed in between, Dagster does not
        know the outputs, so the next run reports what is missing.
        """
        keys = self.steps[step.key].asset.keys
        versions = {
            event.asset_key: (event.tags or {})[DATA_VERSION]
            for event in events
            if isinstance(event, dg.AssetMaterialization) and event.asset_key in keys
        }
        new = {key for key, of in versions.items() if is_news or self._known(key, step.partition) != of}
        if new:
            log_news(self.context, [event for event in events if event.asset_key not in keys])
        for event in (event for event in events if event.asset_key in new):
            if isinstance(event, dg.AssetMaterialization):
                tags = {**(event.tags or {}), **dict(self._tags(event.asset_key, step))}
                self.context.log_event(event._replace(tags=tags))
            else:
                self.context.log_event(event)  # pyright: ignore[reportArgumentType] - it takes evaluations too

    def _known(self, key: dg.AssetKey, partition: str | None) -> str | None:
        instance, kind = self.context.instance, dg.DagsterEventType.ASSET_MATERIALIZATION
        if key not in self.known:
            if partition is None:
                entry = instance.get_latest_materialization_event(key)
                event = entry.asset_materialization if entry else None
                self.known[key] = {None: (event.tags or {}).get(DATA_VERSION)} if event else {}
            else:
                tags = instance.event_log_storage.get_latest_tags_by_partition(key, kind, [DATA_VERSION])
                self.known[key] = {name: of_name.get(DATA_VERSION) for name, of_name in tags.items()}
        return self.known[key].get(partition)

    def _tags(self, key: dg.AssetKey, step: StepRun) -> Iterator[tuple[str, str]]:
        """Return the tags from which Dagster determines staleness: versions of the code and the inputs."""
        spec = self.steps[step.key].asset.specs_by_key[key]
        yield "dagster/data_version_is_user_provided", "true"
        if spec.code_version:
            yield "dagster/code_version", spec.code_version
        record = read_record(self.workspace, step.key, step.partition)
        read = self.steps[step.key].parents(step.partition)
        outputs = {key for of in self.steps.values() for key in of.outputs}
        for dep in spec.deps:
            unprefixed = tuple(dep.asset_key.path[len(self.workspace.prefix) :])
            nodes = [node for node in read if node[0] == unprefixed]
            contents = [(record.reads.get(name_of(node)) if record else None) or "" for node in nodes]
            of_input = contents[0] if len(contents) == 1 else fingerprint(*map(name_of, nodes), *contents)
            kind = "ASSET_MATERIALIZATION" if unprefixed in outputs else "ASSET_OBSERVATION"
            ids: dict[Any, int] = dict(
                self.context.instance.get_latest_storage_id_by_partition(dep.asset_key, dg.DagsterEventType[kind])
            )
            newest = max((ids[name] for _, name in nodes if name in ids), default=None)
            name = dep.asset_key.to_user_string()
            yield f"dagster/input_data_version/{name}", of_input
            yield f"dagster/input_event_pointer/{name}", "NULL" if newest is None else str(newest)

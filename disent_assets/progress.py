"""Show what a run of many steps is doing: live in a terminal, as plain lines in a file."""

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from disent_assets.durations import LOOK
from disent_assets.estimate import Estimate
from disent_assets.plan import Step
from disent_assets.run_step import Outcome
from disent_assets.runner import Report
from disent_core.text import printable

LINE_EVERY = 30.0
"""Seconds between two lines of one step, where the output is no terminal."""
_TITLE = re.compile(r"^[^:]*: (?=\d+ )")
_LEFT = re.compile(r", (\d+) s left$")


class Progress(Report):
    """Follows the steps of a run; the subclasses show it.

    Args:
        check: called often; may raise to stop the run.
        clock: gives the time in seconds.
    """

    def __init__(self, check: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.check, self.clock, self.started = check, clock, clock()
        self.estimate: Estimate | None = None
        self.latest: dict[Step, str] = {}
        self.began: dict[Step, float] = {}
        self.number = self.total = 0
        self.quick: set[str] = set()
        self.warned: set[str] = set()

    def start(self, steps: Sequence[Step], seconds: Mapping[str, float], workers: int) -> None:
        self.estimate, self.total = Estimate(steps, seconds, workers), len(steps)
        self.quick = {name for name, expected in seconds.items() if expected <= LOOK}

    def begin(self, step: Step) -> None:
        self.began[step] = self.now
        self._estimate.begin(step, self.now)

    def end(self, step: Step, outcome: Outcome) -> None:
        self.number += 1
        self._estimate.end(step, self.now)
        self.latest.pop(step, None)
        self.began.pop(step, None)

    def block(self, step: Step) -> None:
        self.number += 1
        self._estimate.end(step, self.now)

    def log(self, step: Step, level: int, text: str) -> None:
        if left := _LEFT.search(text):
            self._estimate.say(step, self.now, float(left[1]))
        self.latest[step] = printable(_TITLE.sub("", text))

    def is_new_warning(self, level: int, text: str) -> bool:
        """Whether a line is a warning that no step has logged before; several steps may read one file."""
        is_new = level >= logging.WARNING and text not in self.warned
        self.warned |= {text} if is_new else set()
        return is_new

    def tick(self) -> None:
        self.check()

    def close(self) -> None:
        """Remove what is not to stay."""

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def _estimate(self) -> Estimate:
        assert self.estimate is not None
        return self.estimate

    def overall(self) -> str:
        """How much is done, and how long the rest takes."""
        left = self._estimate.left(self.now)
        return (
            f"{self.number} of {self.total} steps, {self._estimate.percent(self.now)} %, "
            f"{duration(self.now)}, about {duration(left)} left"
        )


class Lines(Progress):
    """Plain lines: one when a step begins and ends, and one now and then while it goes on."""

    def __init__(
        self,
        check: Callable[[], None],
        file: TextIO,
        clock: Callable[[], float] = time.monotonic,
        every: float = LINE_EVERY,
    ) -> None:
        super().__init__(check, clock)
        self.file, self.every = file, every
        self.shown: dict[Step, float] = {}

    def begin(self, step: Step) -> None:
        super().begin(step)
        self.shown[step] = self.now
        if step.name not in self.quick:
            self._write(f"{step}: begins ({self.overall()})")

    def end(self, step: Step, outcome: Outcome) -> None:
        seconds = self.now - self.began[step]
        super().end(step, outcome)
        if step.name not in self.quick or outcome.made or outcome.failure:
            state = "failed" if outcome.failure else "done" if outcome.made else "up to date"
            self._write(f"{step}: {state} after {duration(seconds)}")

    def log(self, step: Step, level: int, text: str) -> None:
        super().log(step, level, text)
        if self.is_new_warning(level, text):
            self._write(f"{step}: {printable(text)}")
        elif level < logging.WARNING and self.now - self.shown.get(step, 0.0) >= self.every:
            self.shown[step] = self.now
            self._write(f"{step}: {self.latest[step]} ({self.overall()})")

    def _write(self, text: str) -> None:
        self.file.write(f"{text}\n")
        self.file.flush()


class Display(Progress):
    """A line for each running step and one for the whole, which stay below the log lines of the terminal."""

    def __init__(
        self, check: Callable[[], None], console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(check, clock)
        self.console = console
        self.live: Live | None = None

    def start(self, steps: Sequence[Step], seconds: Mapping[str, float], workers: int) -> None:
        super().start(steps, seconds, workers)
        self.live = Live(console=self.console, get_renderable=self.render, refresh_per_second=4, transient=True)
        self.live.start()

    def log(self, step: Step, level: int, text: str) -> None:
        super().log(step, level, text)
        if self.is_new_warning(level, text):
            self.console.print(Text(f"{step}: {printable(text)}"))

    def end(self, step: Step, outcome: Outcome) -> None:
        seconds = self.now - self.began[step]
        super().end(step, outcome)
        if outcome.failure:
            self.console.print(Text(f"{step}: failed after {duration(seconds)}"))

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()

    def render(self) -> Group:
        """What is shown now."""
        rows = Table.grid(padding=(0, 1), expand=True)
        names = max((len(str(step)) for step in list(self.began)), default=0)
        rows.add_column(no_wrap=True, overflow="ellipsis", width=min(names, self.console.width // 2))
        rows.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        rows.add_column(no_wrap=True, justify="right", min_width=7)
        for step, began in list(self.began.items()):
            rows.add_row(Text(str(step)), Text(self.latest.get(step, "")), Text(duration(self.now - began)))
        bar = Table.grid(expand=True)
        bar.add_row(ProgressBar(total=100, completed=self._estimate.percent(self.now)))
        # The last line is not filled with spaces: the `^C` that a terminal adds to it would make it two.
        return Group(rows, bar, Text(self.overall(), no_wrap=True, overflow="ellipsis"))


def new_progress(check: Callable[[], None], *, every_line: bool) -> Progress:
    """The progress that fits the standard error output, or plain lines with every line of the library."""
    if every_line or not sys.stderr.isatty():
        return Lines(check, sys.stderr, every=0.0 if every_line else LINE_EVERY)
    return Display(check, Console(stderr=True))


def duration(seconds: float) -> str:
    """A time in at most two units: `8 s`, `3 min`, `2 h 5 min`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"

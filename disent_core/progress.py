"""Show the progress of long work: a bar of texts, or log lines at intervals."""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

PATIENCE = 1.0
"""Seconds before a bar is shown."""
SECONDS = 5.0
"""Least time between two lines: just often enough to show that the work goes on."""

_LEFT = re.compile(r", (\d{1,9}) s left$")


def text_bar(total: int | None, **options: Any) -> "tqdm":
    """Return a bar on stderr with the number of texts done and the time left, for work of more than a second.

    Options are those of tqdm.
    """
    from tqdm import tqdm

    return tqdm(total=total, unit=" texts", delay=PATIENCE, **options)


@dataclass
class Progress:
    """Log how much is done, the rate and the remaining time; short work logs nothing.

    `first` was done before; it counts as done, but not for the rate. `total` is None if the end is unknown; then
    `at_most` is the latest possible end.
    """

    log: logging.Logger
    total: int | float | None
    unit: str
    what: str = ""
    first: int | float = 0
    at_most: int | None = None
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    logged: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.logged = self.clock()

    def advance(self, done: int | float, detail: Callable[[], str] | None = None) -> None:
        """Log `WHAT: DONE of TOTAL UNIT, DETAIL, 3.5 a second, 20 s left`, unless the last line is too recent.

        `done` is everything up to now, including `first`; `detail` is called only if a line is logged.
        """
        now = self.clock()
        if now - self.logged < SECONDS or done == self.first:
            return
        self.logged = now
        seconds_per_unit = (now - self.started) / (done - self.first)
        self.log.info(
            "%s%d%s %s, %s%s%s",
            *(f"{self.what}: " if self.what else "", done, self._end()),
            *(self.unit, f"{detail()}, " if detail else "", _rate(seconds_per_unit)),
            "" if self.total is None else f", {(self.total - done) * seconds_per_unit:.0f} s left",
        )

    def _end(self) -> str:
        if self.total is not None:
            return f" of {self.total:.0f}"
        return "" if self.at_most is None else f" of at most {self.at_most}"


def seconds_left(line: str) -> float | None:
    """Return the remaining time that a line of `Progress` ends with; None if it has none."""
    left = _LEFT.search(line)
    return left and float(left[1])


def _rate(seconds_per_unit: float) -> str:
    """Return `3.5 a second`, or `20.0 a minute` if an item takes more than a second."""
    if seconds_per_unit > 1:
        return f"{60 / seconds_per_unit:.1f} a minute"
    return f"{1 / max(seconds_per_unit, 1e-9):.1f} a second"

"""A line in the log now and then, of work that takes long."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS = 5.0
"""Least time between two lines: a console stays readable, and nobody wonders whether it hangs."""


@dataclass
class Progress:
    """Tells how much is done, how fast it goes and how long the rest will take: work that is short tells nothing.

    `first` was done before; it counts as done, but not for the rate. `total` is None where the end is not known.
    """

    log: logging.Logger
    total: int | float | None
    unit: str
    what: str = ""
    first: int | float = 0
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    logged: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.logged = self.clock()

    def advance(self, done: int | float, detail: Callable[[], str] | None = None) -> None:
        """Log `WHAT: DONE of TOTAL UNIT, DETAIL, 3.5 a second, 20 s left`, unless the last line is too recent.

        Args:
            done: everything up to now, with what was done before.
            detail: what else there is to say; called for a line that is logged.
        """
        now = self.clock()
        if now - self.logged < SECONDS or done == self.first:
            return
        self.logged = now
        each = (now - self.started) / (done - self.first)
        self.log.info(
            "%s%d%s %s, %s%s%s",
            *(f"{self.what}: " if self.what else "", done, "" if self.total is None else f" of {self.total:.0f}"),
            *(self.unit, f"{detail()}, " if detail else "", _rate(each)),
            "" if self.total is None else f", {(self.total - done) * each:.0f} s left",
        )


def _rate(seconds_each: float) -> str:
    """`3.5 a second` or, of what takes longer, `20.0 a minute`."""
    if seconds_each > 1:
        return f"{60 / seconds_each:.1f} a minute"
    return f"{1 / max(seconds_each, 1e-9):.1f} a second"

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

    `first` was done before; it counts as done, but not for the rate.
    """

    log: logging.Logger
    total: int
    unit: str
    what: str = ""
    first: int = 0
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    logged: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.logged = self.clock()

    def advance(self, done: int, detail: Callable[[], str] | None = None) -> None:
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
            "%s%d of %d %s, %s%s, %.0f s left",
            *(f"{self.what}: " if self.what else "", done, self.total, self.unit),
            f"{detail()}, " if detail else "",
            *(rate(each), (self.total - done) * each),
        )


def rate(seconds_each: float, unit: str = "") -> str:
    """`3.5 a second` or, of what takes longer, `20.0 a minute`; `3.5 epochs a second` with the unit ` epochs`."""
    if seconds_each > 1:
        return f"{60 / seconds_each:.1f}{unit} a minute"
    return f"{1 / max(seconds_each, 1e-9):.1f}{unit} a second"

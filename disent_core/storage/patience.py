"""Wait for a server that is away for a while: a store, a database."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 600.0
LONGEST_PAUSE = 5.0  # seconds; by then an end of the outage is noticed
Answer = TypeVar("Answer")


@dataclass
class Patience:
    """Repeats requests to a server that is away, but only to one that this process has reached before.

    A wrong address is an error at once. All threads of a process wait together: for `seconds` since the first of them
    got no answer.
    """

    server: str  # name, for the log
    seconds: float = PATIENCE_SECONDS
    has_answered: bool = False
    away_since: float | None = None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep

    def ask(self, request: Callable[[], Answer], is_away: Callable[[Exception], bool]) -> Answer:
        """Return what the request returns or raises; repeat it while `is_away(error)` and there is patience left."""
        tries = 0
        while True:
            try:
                answer = request()
            except Exception as error:
                if not is_away(error):
                    self._answered()
                    raise
                if not self._has_patience():
                    raise
                self.pause(backoff(tries, first=1.0, longest=LONGEST_PAUSE))
                tries += 1
            else:
                self._answered()
                return answer

    def _answered(self) -> None:
        away_since, self.has_answered, self.away_since = self.away_since, True, None
        if away_since is not None:
            log.warning("%s answers again, after %.0f s", self.server, self.clock() - away_since)

    def _has_patience(self) -> bool:
        if not self.has_answered or not self.seconds:
            return False
        now, away_since = self.clock(), self.away_since  # which another thread that got an answer may reset
        if away_since is None:
            away_since = self.away_since = now
            log.warning("%s does not answer: waiting for it, up to %.0f minutes", self.server, self.seconds / 60)
        return now - away_since <= self.seconds


def backoff(tries: int, first: float, longest: float) -> float:
    """Return seconds to wait after so many tries: at random up to a limit, which doubles with each.

    So processes that failed together do not come back together.
    """
    return random.uniform(0.1, 1.0) * min(first * 2.0 ** min(tries, 30), longest)

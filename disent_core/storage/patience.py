"""Wait for a server that is temporarily unavailable: a store, a database."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 600.0
LONGEST_PAUSE = 5.0  # seconds within which the end of an outage is noticed
Answer = TypeVar("Answer")


@dataclass
class Patience:
    """Repeats requests to an unavailable server, but only if this process has reached it before.

    So a wrong address is an error at once. All threads of a process wait together, for `seconds` since the first of
    them got no answer.
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
        now, away_since = self.clock(), self.away_since  # another thread that gets an answer may reset it
        if away_since is None:
            away_since = self.away_since = now
            log.warning("%s does not answer: waiting for it, up to %.0f minutes", self.server, self.seconds / 60)
        return now - away_since <= self.seconds


def backoff(tries: int, first: float, longest: float) -> float:
    """Return the seconds to wait after `tries` tries: random, up to a limit that doubles with each try.

    So processes that failed together do not retry together.
    """
    return random.uniform(0.1, 1.0) * min(first * 2.0 ** min(tries, 30), longest)

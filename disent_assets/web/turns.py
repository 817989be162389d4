"""Compute one answer at a time, in the order of the requests; a bounded number of others wait."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
MOST_WAITING = 256
RETRY_SECONDS = 1
"""After which a client that was refused may ask again."""


class Busy(Exception):  # noqa: N818 - a state, not a mistake
    """So many requests wait that no further one is taken."""


class Turns:
    """One thread, which answers first what came first: an index and its model are asked by one request at a time."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.most, self.waiting = most, 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")

    @property
    def is_full(self) -> bool:
        return self.waiting >= self.most

    async def take(self, work: Callable[[], T]) -> T:
        """Compute in the thread, so that other requests are read and written meanwhile.

        Raises:
            Busy: if too many wait already.
        """
        if self.is_full:
            raise Busy(f"{self.most} requests wait already; ask again in {RETRY_SECONDS} s")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.waiting -= 1

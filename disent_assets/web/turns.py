"""Compute one answer at a time, taking turns between addresses, while a bounded number of requests wait."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from disent_core.errors import shortage

log = logging.getLogger(__name__)
T = TypeVar("T")
MOST_WAITING = 256
RETRY_SECONDS = 1
"""How long a rejected client should wait before it tries again."""


class Busy(Exception):  # noqa: N818 - a state, not a mistake
    """Too many requests are waiting to accept another, or the machine lacks memory."""


class Turns:
    """One thread that answers one request at a time, by an index and its model: the oldest of each address in turn.

    A single address may fill all places. Others then take the newest places of the address that has most.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.most, self._is_computing = most, False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._thread.submit(int).result()  # starts the thread: a machine without a free one fails here, not a request
        self.shortage: str | None = None
        """What the machine lacked when the last answer was computed."""
        self._queues: dict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        """Waiting requests by address, first the address that has waited longest for its turn. No queue is empty."""

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values())) + self._is_computing

    @property
    def is_full(self) -> bool:
        return self.waiting >= self.most

    def require_place(self, address: str) -> None:
        """Reject a request if all places are taken, unless another address has more of them.

        Raises:
            Busy: if the request is rejected.
        """
        if self.is_full and len(self._longest()) <= len(self._queues.get(address, ())) + 1:
            raise self.busy()

    def busy(self) -> Busy:
        return Busy(f"{self.most} requests are already waiting; try again in {RETRY_SECONDS} s")

    async def take(self, work: Callable[[], T], address: str = "") -> T:
        """Compute in the thread, so that other requests can be read and answered meanwhile.

        Raises:
            Busy: if too many requests wait already, or another address takes the place.
        """
        self.require_place(address)
        if self.is_full:
            _, refused = self._longest().pop()
            if not refused.done():
                refused.set_exception(self.busy())
        answer = asyncio.get_running_loop().create_future()
        self._queues.setdefault(address, deque()).append((work, answer))
        self._compute_next()
        return await answer

    def _longest(self) -> deque[tuple[Callable[[], Any], asyncio.Future[Any]]]:
        return max(self._queues.values(), key=len, default=deque())

    def _compute_next(self) -> None:
        if self._is_computing or not self._queues:
            return
        address = next(iter(self._queues))
        queue = self._queues.pop(address)
        work, answer = queue.popleft()
        if queue:
            self._queues[address] = queue  # behind all others
        self._is_computing = True
        computed = asyncio.get_running_loop().run_in_executor(self._thread, work)
        computed.add_done_callback(partial(self._give, answer))

    def _give(self, answer: asyncio.Future[Any], computed: asyncio.Future[Any]) -> None:
        self._is_computing = False
        self._compute_next()
        error = computed.exception()
        self.shortage = shortage(error) if error else None
        if answer.done():
            return
        if error:
            if self.shortage is not None:
                log.warning("a request failed: %s", self.shortage)
            answer.set_exception(error if self.shortage is None else Busy(self.shortage))
        else:
            answer.set_result(computed.result())

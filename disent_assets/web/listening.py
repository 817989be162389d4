"""Serve an application so that slow, idle or numerous connections can't silence it, and addresses take turns.

By itself, uvicorn waits forever for the rest of a request. With a limit on connections it answers 503 to everybody once
so many are open, even silent ones.
"""

import asyncio
import contextlib
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from disent_assets.web.request_guard import LOOPBACK, in_address
from disent_core.errors import DisentError, shortage

REQUEST_SECONDS = 20
"""Time for a client to send a whole request, or to receive an answer and send the next request."""
IDLE_SECONDS = 5
"""Time between an answer and the first byte of the next request."""
MOST_CONNECTIONS = 400
"""Most open connections, below 1,024 open files.
A further one closes the connection that has waited longest for its client, of the address with most."""


_WAITS = count()


class BoundedProtocol(H11Protocol):
    """A connection that is closed if its client keeps it waiting, or if too many connections are open."""

    deadline: asyncio.TimerHandle | None = None
    """When to close the connection; None while an answer is computed, as that delay is not the client's."""
    number: int
    """Serial number of its last wait; clocks of event loops are too coarse to tell which wait began first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST_CONNECTIONS:
            all_of_them = [other for other in self.connections if isinstance(other, BoundedProtocol)]
            held = Counter(other.address for other in all_of_them)
            waiting = (other for other in all_of_them if other.deadline is not None)
            min(waiting, key=lambda other: (-held[other.address], other.number))._drop()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._stop_waiting_if_asked()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()  # may start the next request if that has arrived
        self._stop_waiting_if_asked()

    def _stop_waiting_if_asked(self) -> None:
        if self.cycle and not self.cycle.more_body and not self.cycle.response_complete:
            self._stop_waiting()

    def _wait(self) -> None:
        self._stop_waiting()
        self.number = next(_WAITS)
        self.deadline = self.loop.call_later(REQUEST_SECONDS, self._drop)

    def _drop(self) -> None:
        self._stop_waiting()
        self.transport.abort()  # close() would wait until the client has received what was sent

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


def serve(app: ASGIApp, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve an application until Ctrl-C; call `ready` with its address once it can be opened. Port 0: any free port."""
    served = server(app)
    with listening(host, port) as listener, asyncio.Runner(loop_factory=served.config.get_loop_factory()) as runner:
        ready(f"http://{in_address(host)}:{listener.getsockname()[1]}")
        with contextlib.suppress(KeyboardInterrupt):
            runner.run(served.serve(sockets=[listener]))


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """Return a server with bounded connections."""
    config = uvicorn.Config(
        app, http=BoundedProtocol, ws="none", lifespan="off", access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=IDLE_SECONDS, timeout_graceful_shutdown=IDLE_SECONDS,
        **{"log_level": "error", **options},
    )  # fmt: skip
    return uvicorn.Server(config)


def listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as closed_on_error:
            listener = closed_on_error.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            closed_on_error.pop_all()
            return listener
    except OSError as error:
        problem = f"can't listen on {host}, port {port} ({error.strerror})"
        raise DisentError(f"{problem}. Choose another with --port; --port 0 takes any free one") from error


def is_shared(host: str) -> bool:
    """Return whether other machines can reach this address."""
    return host not in (*LOOPBACK, "localhost")


# --- one answer at a time -----------------------------------------------------------------------------------

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
        """Raise `Busy` if all places are taken, unless another address has more of them."""
        if self.is_full and len(self._longest()) <= len(self._queues.get(address, ())) + 1:
            raise self.busy()

    def busy(self) -> Busy:
        return Busy(f"{self.most} requests are already waiting; try again in {RETRY_SECONDS} s")

    async def take(self, work: Callable[[], T], address: str = "") -> T:
        """Compute in the thread while others are read; raise `Busy` without a place, or if another address takes it."""
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

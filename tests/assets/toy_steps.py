"""Steps that compute nothing, for tests of what surrounds them, and a server that keeps what it is sent."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from disent_assets.run.plan import StepRun
from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Output, Step

KEY = ("corpora", "toy")
RESULT = StepResult(rows=1, content="0", is_reused=False)


def toy_step(
    key: str | Sequence[str] = KEY, make: Callable[[str], StepResult] = lambda _: RESULT, **details: object
) -> Step:
    """Return a step with one output; a key is a text with slashes, or its parts."""
    output = Output(tuple(key.split("/") if isinstance(key, str) else key), "Toy.")
    return Step(made=(output,), version="1", make=lambda partition: [make(partition)], **details)


def planned(name: str, partition: str | None = None, *after: StepRun, uses_device: bool = False) -> StepRun:
    """Return a step of a plan."""
    key = tuple(name.split("/"))
    return StepRun(key, (key,), partition, frozenset(other.name for other in after), uses_device)


class Listener:
    """A server on this machine, the messages that it gets, and the status with which it answers."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.status = 200
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                listener.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(listener.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()
    Thread(target=listener.server.serve_forever, daemon=True).start()
    yield listener
    listener.server.shutdown()
    listener.server.server_close()

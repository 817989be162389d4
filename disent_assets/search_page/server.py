"""Listen, for this machine only unless the user says otherwise, until the process is interrupted."""

import contextlib
import socket
from collections.abc import Callable, Mapping

from disent_assets.guard import LOOPBACK, in_address
from disent_assets.search_page.answers import Index, columns
from disent_assets.search_page.question import LONGEST, Question
from disent_core.errors import DisentError


def is_shared(host: str) -> bool:
    """Whether other machines may reach what listens there."""
    return host not in (*LOOPBACK, "localhost")


def warm(index: Index) -> None:
    """Search once by everything: what is missing is told before anything listens, and the first question waits less.

    From then on the vectors are mapped into memory, so that the index may be extended meanwhile.

    Raises:
        DisentError: if the head can't be loaded, or a file of the index is damaged.
    """
    if len(index.texts):
        columns(index, Question(index.texts[0][:LONGEST], 1, index.languages[0] or ""))


def run(index: Index, about: Mapping[str, str], host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page of an index.

    Args:
        index: to search in.
        about: as in `application`.
        host: name or address to listen on.
        port: 0: any that is free.
        ready: gets the address of the page as soon as it can be opened.

    Raises:
        DisentError: if one can't listen there.
    """
    import uvicorn

    from disent_assets.search_page.app import application

    app = application(index, about, host if is_shared(host) else None)
    with listening(host, port) as listener:
        ready(f"http://{in_address(host)}:{listener.getsockname()[1]}")
        config = uvicorn.Config(
            app, http="h11", ws="none", lifespan="off", log_level="warning", access_log=False, server_header=False,
            proxy_headers=False, limit_concurrency=100,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there, from now on.

    Raises:
        DisentError: if that can't be.
    """
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
        raise DisentError(f"{problem}. Name another with --port, --port 0 takes one that is free") from error

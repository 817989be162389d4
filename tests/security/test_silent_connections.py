"""Sockets that stay silent, slow or many do not silence `disent serve`, on a running server."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import disent
from disent_assets.web import listening as module
from disent_assets.web.listening import BoundedProtocol, Turns, listening, server
from disent_assets.web.search_page.api import MOST_BYTES
from disent_assets.web.search_page.app import application

DEADLINE, MOST = 2.0, 10
HALF = {
    "no byte": b"",
    "half a request line": b"POST /v1/se",
    "half a header": b"POST /v1/search HTTP/1.1\r\nHost: 127.",
    "half a content": b"POST /v1/search HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{",
    "a chunk that does not end": b"POST /v1/search HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "a second request that does not end": b"GET /v1/health HTTP/1.1\r\nHost: HOST\r\n\r\nGET /v1",
}


def serve(app: Starlette) -> Iterator[int]:
    """The port of an application that is served in a thread."""
    with listening("127.0.0.1", 0) as listener:
        running = server(app, log_level="critical")
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def index() -> disent.Index:
    return disent.Index.of(["wake me up at nine", "play some jazz"])


@pytest.fixture
def port(monkeypatch, index) -> Iterator[int]:
    monkeypatch.setattr(module, "REQUEST_SECONDS", DEADLINE)
    monkeypatch.setattr(module, "MOST_CONNECTIONS", MOST)
    yield from serve(application(index, {}))


def opened(port: int, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))
    connection.sendall(sent.replace(b"HOST", f"127.0.0.1:{port}".encode()))
    return connection


def is_answered(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/search", '{"queries": ["jazz"]}', {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status == 200


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes the connection, after what it answers."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_a_request_that_does_not_end_is_closed(port):
    with ExitStack() as held:
        waiting = {case: held.enter_context(opened(port, sent)) for case, sent in HALF.items()}
        assert [case for case, connection in waiting.items() if not is_closed(connection)] == []


def test_trickling_bytes_do_not_extend_the_request_timeout(port):
    def trickle() -> None:
        for _ in range(300):
            connection.sendall(b"X: a\r\n")
            time.sleep(0.2)

    with opened(port, b"GET / HTTP/1.1\r\n") as connection, pytest.raises((ConnectionResetError, BrokenPipeError)):
        trickle()


def test_silent_connections_beyond_the_limit_do_not_block_the_server(port):
    with ExitStack() as held:
        silent = [held.enter_context(opened(port, HALF["half a header"])) for _ in range(5 * MOST)]
        assert is_answered(port)
        assert is_closed(silent[0])  # the one that has waited longest made room


def test_connections_of_one_client_do_not_evict_those_of_another(port):
    with ExitStack() as held:
        modest = held.enter_context(opened(port))
        greedy = [held.enter_context(opened(port, address="127.0.0.2")) for _ in range(5 * MOST)]
        assert is_closed(greedy[0])
        modest.sendall(f"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert modest.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_requests_of_one_client_leave_room_for_another(monkeypatch, index):
    free, asked, search_each = threading.Event(), [], index.search_each

    def slow(queries, *arguments, **options):
        asked.extend(query for query in queries if query[:6] in ("greedy", "modest"))  # others measure the noise
        free.wait(60)
        return search_each(queries, *arguments, **options)

    def search(port: int, query: str, address: str) -> socket.socket:
        content = f'{{"queries": ["{query}"]}}'
        head = "POST /v1/search HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nConnection: close\r\n"
        sent = f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode()
        connection = held.enter_context(opened(port, sent, address))
        time.sleep(0.2)  # so that they come in this order
        return connection

    monkeypatch.setattr(index, "search_each", slow)
    for port in serve(application(index, {}, turns=Turns(most=5))):
        with ExitStack() as held:
            held.callback(free.set)
            greedy = [search(port, f"greedy {number}", "127.0.0.2") for number in range(6)]
            modest = [search(port, f"modest {number}", "127.0.0.1") for number in range(3)]
            free.set()
            statuses = [connection.recv(12)[-3:] for connection in (*greedy, *modest)]
    assert statuses == [b"200"] * 3 + [b"503"] * 3 + [b"200"] * 2 + [b"503"]
    assert asked == ["greedy 0", "greedy 1", "modest 0", "greedy 2", "modest 1"]


def test_a_connection_awaiting_its_answer_is_not_evicted(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)

    def slow(request: Request) -> PlainTextResponse:
        time.sleep(1)
        return PlainTextResponse("done")

    for port in serve(Starlette(routes=[Route("/", slow)])):
        with ExitStack() as held:
            asked = held.enter_context(opened(port, b"GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"))
            time.sleep(0.1)
            for _ in range(5):
                held.enter_context(opened(port))
            assert asked.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_an_unread_answer_is_dropped(monkeypatch):
    """uvicorn closes such a connection only after all has been sent, which is never."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", DEADLINE)
    lost = threading.Event()

    def connection_lost(self: BoundedProtocol, error: Exception | None) -> None:
        lost.set()
        real(self, error)

    real = BoundedProtocol.connection_lost
    monkeypatch.setattr(BoundedProtocol, "connection_lost", connection_lost)
    large = Starlette(routes=[Route("/", lambda request: PlainTextResponse("a" * (64 << 20)))])
    for port in serve(large):
        with opened(port, b"GET / HTTP/1.1\r\nHost: HOST\r\n\r\n"):
            assert lost.wait(30)


def test_content_without_end_is_refused_while_it_is_sent(port):
    head = HALF["half a content"].replace(b"Length: 100", b"Length: 10000000000")
    with opened(port, head) as connection:
        connection.sendall(b" " * (MOST_BYTES + 1))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413")
        assert is_closed(connection)


def test_keep_alive_and_pipelined_requests_are_answered(port):
    request = b"GET /v1/health HTTP/1.1\r\nHost: HOST\r\n\r\n"
    with opened(port, 3 * request) as connection:
        received = b""
        while received.count(b'{"status":"ok"}') < 3:
            received += connection.recv(1 << 16)
        connection.sendall(request.replace(b"HOST", f"127.0.0.1:{port}".encode()))
        assert b"200 OK" in connection.recv(1 << 16)

"""Stores for tests: S3 on loopback (moto or SeaweedFS), a proxy that breaks requests, machines that share a bucket."""

import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError

from disent_core.storage.bucket import Bucket
from disent_core.storage.leases import Pace
from disent_core.storage.remote import RemoteHome, attach, detach
from disent_core.storage.results import write_text_result

QUICK = Pace(beat=0.05, lasts=0.5, look=0.01)
"""Pace of leases: a dead holder is replaced after half a second."""
_SERVER = """
import logging, threading
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
threading.Event().wait()
"""


@contextmanager
def moto(within: Sequence[str] = ()) -> Iterator[str]:
    """Run S3 on loopback in a separate process; yield its address.

    Args:
        within: the command that runs another one in a separate network.
    """
    command = [*within, sys.executable, "-c", _SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


_IDENTITIES = [
    {"name": "tests", "credentials": [{"accessKey": "nobody", "secretKey": "nothing"}], "actions": ["Admin"]},
    {"name": "anonymous", "actions": ["Admin"]},  # creates buckets
]


@contextmanager
def seaweedfs() -> Iterator[str]:
    """Run S3 with objects on disk, on loopback in a separate process; yield its address."""
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        log, identities = Path(folder) / "log", Path(folder) / "identities.json"
        identities.write_text(json.dumps({"identities": _IDENTITIES}))
        command = [
            weed, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=500",
            *(f"-{name}={port}" for name, port in ports.items()), "-master.telemetry=false",
            "-s3", f"-s3.config={identities}", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
        ]  # fmt: skip
        variables = {"HOME": folder, "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}  # one volume per bucket instead of seven
        with (
            log.open("w") as output,
            subprocess.Popen(command, stdout=output, stderr=output, env=variables) as process,
        ):
            try:
                endpoint = f"http://127.0.0.1:{ports['s3.port']}"
                wait_for(endpoint, process, log)
                yield endpoint
            finally:
                process.kill()
                for port in ports.values():
                    for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                        left.unlink()


def free_ports(number: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [listener.getsockname()[1] for listener in sockets]


def wait_for(endpoint: str, process: subprocess.Popen, log: Path) -> None:
    """Wait until a store can create a bucket."""
    for _ in range(600):
        with suppress(URLError, ConnectionError):
            make_bucket(endpoint, "first")
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"{process.args[0]} does not answer: {log.read_text()[-2000:]}")


def environment(endpoint: str) -> dict[str, str]:
    """Return the environment variables for a process that uses such a store."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
    }


def make_bucket(endpoint: str, name: str) -> str:
    """Create a bucket; return its address."""
    with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")):
        return f"s3://{name}"


def write_number(folder: Path, number: int) -> None:
    """Write a result; work for another process."""
    write_text_result(folder / str(number), f"number {number}")


class Machines:
    """Machines with a folder each that share a bucket or, without one, a single folder."""

    def __init__(self, folder: Path, bucket: Bucket | None) -> None:
        self.folder, self.bucket, self.folders = folder, bucket, []

    def new(self) -> Path:
        """Return the home as seen by another machine."""
        folder = self.folder / (f"machine-{len(self.folders)}" if self.bucket else "shared")
        folder.mkdir(exist_ok=True)
        if self.bucket is not None:
            attach(RemoteHome(self.bucket, folder, QUICK))
        self.folders.append(folder)
        return folder

    def end(self) -> None:
        """Detach all machines and remove their folders."""
        for folder in self.folders:
            detach(folder)
            shutil.rmtree(folder, ignore_errors=True)


# --- a store that fails -----------------------------------------------------------------------------------

Fault = Callable[["Proxy", BaseHTTPRequestHandler, Callable[[], tuple[int, dict[str, str], bytes]]], None]
"""Answers a request: gets the proxy, the request, and a function that lets the store answer."""


class Proxy:
    """A proxy on loopback that answers chosen requests with faults; `usual` handles the others, by default without."""

    def __init__(self, behind: str, usual: Callable[[BaseHTTPRequestHandler], Fault] = lambda _: through) -> None:
        self.behind, self.usual, self.faults, self.met, self.is_over = behind, usual, [], 0, threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = cache(self._body)

                def answer() -> tuple[int, dict[str, str], bytes]:
                    connection = HTTPConnection(proxy.behind.removeprefix("http://"))
                    headers = {
                        name: value for name, value in self.headers.items() if name.lower() not in _NOT_FORWARDED
                    }
                    length = {"Content-Length": str(len(body()))}
                    connection.request(self.command, self.path, body(), headers | length)
                    answer = connection.getresponse()
                    headers = {name: value for name, value in answer.getheaders() if name.lower() not in _NOT_FORWARDED}
                    size = answer.headers.get("Content-Length") if self.command == "HEAD" else None
                    return answer.status, headers | ({"Content-Length": size} if size else {}), answer.read()

                with suppress(BrokenPipeError, ConnectionResetError):
                    proxy.next(self)(proxy, self, answer)
                if not self.close_connection:
                    body()  # drain it, or the rest would be read as the next request

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Address of the proxy."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def next(self, request: BaseHTTPRequestHandler) -> Fault:
        """Return the fault for a request: the first planned one that fits, which is then used up."""
        for place, (methods, part, fault) in enumerate(self.faults):
            if request.command in methods and part in request.path:
                del self.faults[place]
                self.met += 1
                return fault
        return self.usual(request)

    def break_next(self, fault: Fault, *, times: int = 1, methods: tuple[str, ...], part: str = "") -> None:
        """Answer the next requests with these methods whose path contains `part` with a fault."""
        self.faults += [(methods, part, fault)] * times

    @contextmanager
    def away(self, fault: Fault, seconds: float) -> Iterator[None]:
        """Answer every request with a fault for `seconds` from now on; wait for the end of that time on exit."""
        usual, self.usual = self.usual, lambda _: fault

        def come_back() -> None:
            self.usual = usual

        timer = threading.Timer(seconds, come_back)
        timer.start()
        try:
            yield
        finally:
            timer.join()

    def __enter__(self) -> "Proxy":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()


_NOT_FORWARDED = ("content-length", "connection", "transfer-encoding", "date", "server", "keep-alive")


def _send(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


def through(_: Proxy, request: BaseHTTPRequestHandler, answer: Callable) -> None:
    """Pass the request on without a fault."""
    _send(request, *answer())


def busy(_: Proxy, request: BaseHTTPRequestHandler, __: Callable) -> None:
    """Answer 503 SlowDown and do nothing."""
    _send(request, 503, {}, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>")


def gone(_: Proxy, request: BaseHTTPRequestHandler, __: Callable) -> None:
    """Close the connection without an answer and do nothing."""
    request.close_connection = True


def lost_answer(_: Proxy, request: BaseHTTPRequestHandler, answer: Callable) -> None:
    """Let the store process the request, but replace its answer by a 503."""
    answer()
    _send(request, 503, {}, b"<Error><Code>SlowDown</Code></Error>")


def cut(_: Proxy, request: BaseHTTPRequestHandler, answer: Callable) -> None:
    """Close the connection halfway through the answer."""
    status, headers, body = answer()
    _send(request, status, {**headers, "Content-Length": str(len(body))}, body[: len(body) // 2])
    request.close_connection = True


def cut_upload(_: Proxy, request: BaseHTTPRequestHandler, __: Callable) -> None:
    """Close the connection halfway through the upload, of which the store gets nothing."""
    request.rfile.read(int(request.headers.get("Content-Length") or 0) // 2)
    request.close_connection = True


def flipped(_: Proxy, request: BaseHTTPRequestHandler, answer: Callable) -> None:
    """Flip a bit of the answer."""
    status, headers, body = answer()
    _send(request, status, headers, bytes([body[0] ^ 1]) + body[1:])


def silent(proxy: Proxy, _: BaseHTTPRequestHandler, __: Callable) -> None:
    """Do not answer until the test is over."""
    proxy.is_over.wait()


def refused(_: Proxy, request: BaseHTTPRequestHandler, __: Callable) -> None:
    """Answer 403: the credentials do not permit this."""
    _send(request, 403, {}, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")


if __name__ == "__main__":
    with moto() as endpoint:
        print(endpoint, flush=True)
        threading.Event().wait()

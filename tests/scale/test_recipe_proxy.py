"""`deploy/compose/proxy.conf`, run by nginx before a server with disent's guard, in a network of its own."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_ray import Network

ROOT = Path(__file__).parents[2]
TOOLS = ("nginx", "openssl", "curl")
SERVER = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from disent_assets.web.request_guard import Guard

async def answer(request):
    return PlainTextResponse(f"{request.method} {request.headers.get('authorization')}")

app = Starlette(routes=[Route("/graphql", answer, methods=["GET", "POST"])])
uvicorn.run(Guard(app), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""
NGINX = "user root; pid {0}/pid; error_log {0}/errors; events {{}}\nhttp {{ access_log off; {1} }}"
SHOW, EDIT = "https://127.0.0.1:8443", "https://127.0.0.1:8444"
READER, OPERATOR = ("--user", "ada:one"), ("--user", "bob:two")
POST = ("--request", "POST", "--data", "{}", "--header", "Content-Type: application/json")


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[..., str]]:
    """Ask the proxy at a port; gives the answer and its status."""
    if absent := [name for name in TOOLS if shutil.which(name) is None]:
        pytest.fail(f"{', '.join(absent)} missing: apt-get install nginx-light openssl curl")
    network, folder = Network(), Path("/tmp") / f"disent-proxy-{time.monotonic_ns()}"
    folder.mkdir()
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tls.key", "-out", "tls.crt",
            "-subj", "/CN=disent.example"]  # fmt: skip
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    for file, (_, login) in (("readers", READER), ("operators", OPERATOR)):
        name, password = login.split(":")
        hashed = subprocess.run(["openssl", "passwd", "-apr1", password], capture_output=True, text=True, check=True)
        (folder / file).write_text(f"{name}:{hashed.stdout}", encoding="utf-8")
    proxy = (ROOT / "deploy/compose/proxy.conf").read_text(encoding="utf-8").replace("/secrets", str(folder))
    (folder / "nginx.conf").write_text(NGINX.format(folder, proxy), encoding="utf-8")
    commands = [[sys.executable, "-c", SERVER, port] for port in ("3000", "3001")]
    commands.append(["nginx", "-g", "daemon off;", "-c", str(folder / "nginx.conf")])
    started = [subprocess.Popen(network.command(*command), cwd=ROOT) for command in commands]

    def curl(address: str, *options: str) -> str:
        command = ["curl", "--silent", "--insecure", "--write-out", " %{http_code}", *options, f"{address}/graphql"]
        return subprocess.run(network.command(*command), capture_output=True, text=True, check=False).stdout

    try:
        until = time.monotonic() + 60
        while {curl(EDIT, *OPERATOR)[-3:], curl(SHOW, *READER)[-3:]} != {"200"} and time.monotonic() < until:
            time.sleep(0.5)
        yield curl
    finally:
        for process in started:
            process.terminate()  # nginx ends its workers
            process.wait()
        network.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("address", [SHOW, EDIT])
def test_access_without_a_login_is_401(ask, address):
    assert ask(address).endswith(" 401")


def test_a_reader_login_cannot_start_runs(ask):
    assert ask(SHOW, *READER).endswith(" 200")
    assert ask(EDIT, *READER).endswith(" 401")


def test_same_origin_requests_pass_the_proxy_without_forwarding_the_login(ask):
    same_origin = ("--header", f"Origin: {EDIT}", "--header", "Sec-Fetch-Site: same-origin")
    assert ask(EDIT, *OPERATOR, *POST, *same_origin) == "POST None 200"


@pytest.mark.parametrize(
    "header",
    ["Origin: https://evil.example", "Origin: http://127.0.0.1:3000", "Origin: https://127.0.0.1:8443",
     "Sec-Fetch-Site: cross-site"],
)  # fmt: skip
def test_cross_site_requests_are_403_even_with_a_login(ask, header):
    assert ask(EDIT, *OPERATOR, *POST, "--header", header).endswith(" 403")


def test_nothing_is_served_without_tls(ask):
    assert ask("http://127.0.0.1:8444", *OPERATOR).endswith(" 400")

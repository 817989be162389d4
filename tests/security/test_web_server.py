"""A real web server rejects requests of other pages, under other names and from other machines."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from disent.home import PROJECT
from disent_assets.settings.instance import dagster_home
from harness.chromium import browser, debugger_of_page, needs_chromium, until

POOL = 'mutation { setConcurrencyLimit(concurrencyKey: "%s", limit: 0) }'
ATTACK = POOL % "gpu"
"""Stops all encoding and training, if it is executed."""
REPORT = "/report_asset_materialization/corpora/files"
JSON = ("Content-Type", "application/json")


@dataclass(frozen=True)
class Running:
    """A server and the folder of results that it serves."""

    home: Path
    port: int
    log: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, *headers: tuple[str, str], body: str = "") -> http.client.HTTPResponse:
        """One request with exactly these headers, and the usual Host unless one is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        names = [name for name, _ in headers]
        for name, value in (*(() if "Host" in names else [("Host", "SERVER")]), *headers):
            connection.putheader(name, value.replace("SERVER", self.address).replace("PORT", str(self.port)))
        content = body.encode(errors="surrogatepass")
        connection.putheader("Content-Length", str(len(content)))
        connection.endheaders(content)
        answer = connection.getresponse()
        answer.text = answer.read().decode(errors="replace")
        connection.close()
        return answer

    def mutate(self, key: str, *headers: tuple[str, str]) -> http.client.HTTPResponse:
        return self.ask("POST", "/graphql", JSON, *headers, body=json.dumps({"query": POOL % key}))

    def instance(self) -> dg.DagsterInstance:
        return dg.DagsterInstance.from_config(str(self.home / "dagster"))

    @property
    def stopped_pools(self) -> set[str]:
        """Pools whose limit a mutation has set."""
        with self.instance() as instance:
            return set(instance.event_log_storage.get_concurrency_keys())


@contextmanager
def running(
    home: Path, module: str, *arguments: str, workspace: tuple[str, ...] = ("--empty-workspace",)
) -> Iterator[Running]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"DISENT_HOME": str(home), "DAGSTER_HOME": str(dagster_home(home))}
    command = [sys.executable, "-m", module, *workspace, "--host", "127.0.0.1", "--port", str(port)]
    with (home / "server.log").open("w") as log, subprocess.Popen(
        [*command, *arguments], env=environment, cwd=PROJECT, stdin=subprocess.PIPE, stdout=log, stderr=log,
        start_new_session=True,
    ) as process:  # fmt: skip
        server = Running(home, port, home / "server.log")
        try:
            wait_for(server, process)
            yield server
        finally:
            process.send_signal(signal.SIGINT)


def wait_for(server: Running, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        assert process.poll() is None, server.log.read_text()
        try:
            return server.ask("GET", "/server_info").status == 200
        except ConnectionError:
            return False

    until(answers)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("home")
    (home / "plots" / "heads").mkdir(parents=True)
    for name in ("curve.png", "curve.svg", "table.json", ".curve.png.1.tmp", ".hidden.png"):
        (home / "plots" / "heads" / name).write_text(name)
    (home / "secret.png").write_text("secret")
    (home / "plots" / "link.png").symlink_to(home / "secret.png")
    with running(home, "disent_assets.web.server", "--uvicorn-log-level", "info") as server:
        yield server


# --- what is refused, what is answered --------------------------------------------------------------------

IN_ADDRESS = f"/graphql?query={quote(ATTACK)}"
BODY = json.dumps({"query": ATTACK})
REFUSED = {
    "a mutation by GET": ("GET", IN_ADDRESS),
    "a mutation by GET that accepts a page": ("GET", IN_ADDRESS, ("Accept", "text/html")),
    "a mutation by GET for a picture": ("GET", IN_ADDRESS, ("Accept", "image/png,*/*")),
    "a query by GET": ("GET", "/graphql?query={version}"),
    "a GET that accepts no page": ("GET", "/graphql", ("Accept", "*/*")),
    "a mutation by HEAD": ("HEAD", IN_ADDRESS),
    "a foreign origin": ("POST", "/graphql", JSON, ("Origin", "https://evil.example")),
    "no origin's page": ("POST", "/graphql", JSON, ("Origin", "null")),
    "a page of another port": ("POST", "/graphql", JSON, ("Origin", "http://127.0.0.1:1")),
    "a page that names the port only": ("POST", "/graphql", JSON, ("Origin", "http://evil.example:PORT")),
    "localhost's page at 127.0.0.1": ("POST", "/graphql", JSON, ("Origin", "http://localhost:PORT")),
    "two origins": ("POST", "/graphql", JSON, ("Origin", "http://SERVER"), ("Origin", "https://evil.example")),
    "a cross-site request": ("POST", "/graphql", JSON, ("Sec-Fetch-Site", "cross-site")),
    "a request of another port": ("POST", "/graphql", JSON, ("Sec-Fetch-Site", "same-site")),
    "a cross-site form": ("POST", "/graphql", JSON, ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"),
                          ("Sec-Fetch-Dest", "document")),
    "a foreign host": ("POST", "/graphql", JSON, ("Host", "evil.example")),
    "a foreign host at the port": ("POST", "/graphql", JSON, ("Host", "evil.example:PORT")),
    "a host that begins alike": ("POST", "/graphql", JSON, ("Host", "localhost.evil.example:PORT")),
    "a host without its port": ("POST", "/graphql", JSON, ("Host", "127.0.0.1")),
    "a host with another port": ("POST", "/graphql", JSON, ("Host", "127.0.0.1:1")),
    "an empty host": ("POST", "/graphql", JSON, ("Host", "")),
    "a foreign host that reads": ("GET", "/server_info", ("Host", "evil.example")),
    "a foreign page that reads": ("GET", "/server_info", ("Sec-Fetch-Site", "cross-site")),
    "a foreign page that reads runs": ("GET", "/download_debug/run", ("Sec-Fetch-Site", "same-site")),
    "a picture on a foreign page": ("GET", "/pictures/heads/curve.png", ("Sec-Fetch-Site", "cross-site"),
                                    ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")),
    "a foreign frame": ("GET", "/", ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"),
                        ("Sec-Fetch-Dest", "iframe")),
    "a preflight": ("OPTIONS", "/graphql", ("Origin", "https://evil.example")),
    "a report of a foreign page": ("POST", REPORT, JSON, ("Origin", "https://evil.example")),
}  # fmt: skip
NO_JSON = {
    "a mutation in the address of a POST": ("POST", IN_ADDRESS),
    "a form": ("POST", IN_ADDRESS, ("Content-Type", "application/x-www-form-urlencoded")),
    "plain text": ("POST", "/graphql", ("Content-Type", "text/plain")),
    "plain text that names JSON": ("POST", "/graphql", ("Content-Type", "text/plain; application/json")),
    "GraphQL": ("POST", "/graphql", ("Content-Type", "application/graphql")),
    "two types of content": ("POST", "/graphql", JSON, ("Content-Type", "text/plain")),
    "a report in plain text": ("POST", REPORT, ("Content-Type", "text/plain")),
    "a report without type": ("POST", REPORT),
}


def test_a_forged_request_is_refused(server):
    for case, (method, path, *headers) in {**REFUSED, **NO_JSON}.items():
        body = "{}" if path == REPORT else BODY if method == "POST" else ""
        answer = server.ask(method, path, *headers, body=body)
        assert answer.status == (415 if case in NO_JSON else 403), case
        assert method == "HEAD" or answer.text.startswith("refused: "), case
    assert "gpu" not in server.stopped_pools
    with server.instance() as instance:
        assert instance.get_latest_materialization_event(dg.AssetKey(["corpora", "files"])) is None


ANSWERED = {
    "a page": ("GET", "/"),
    "a page by a link": ("GET", "/assets", ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"),
                         ("Sec-Fetch-Dest", "document")),
    "a page at localhost": ("GET", "/", ("Host", "localhost:PORT")),
    "a page at ::1": ("GET", "/", ("Host", "[::1]:PORT")),
    "a page at LOCALHOST": ("GET", "/", ("Host", "LOCALHOST:PORT")),
    "the page of GraphQL": ("GET", "/graphql", ("Accept", "text/html,*/*")),
    "a picture": ("GET", "/pictures/heads/curve.png", ("Sec-Fetch-Site", "same-origin")),
}  # fmt: skip


def test_ordinary_requests_of_the_user_are_answered(server):
    assert {case: server.ask(*request).status for case, request in ANSWERED.items()} == dict.fromkeys(ANSWERED, 200)


def test_the_ui_and_local_programs_may_send_mutations(server):
    """The sensor that reloads a changed configuration asks as a program."""
    asked = {"without-origin": ()}
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = f"{name}:{server.port}"
        asked[f"of-{name}"] = ("Host", host), ("Origin", f"http://{host}"), ("Sec-Fetch-Site", "same-origin")
    for pool, headers in asked.items():
        assert server.mutate(pool, *headers).status == 200
    assert asked.keys() <= server.stopped_pools


def test_no_page_may_embed_an_answer(server):
    for path in ("/", "/server_info", "/pictures/heads/curve.svg", "/graphql?query={version}"):
        headers = server.ask("GET", path).headers
        assert headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in headers.get_all("Content-Security-Policy")
        assert headers["Cross-Origin-Resource-Policy"] == headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Access-Control-Allow-Origin"] is None
    assert len(server.ask("GET", "/").headers.get_all("Content-Security-Policy")) == 2  # Dagster's, and ours


# --- websockets -------------------------------------------------------------------------------------------


def websocket(server: Running, host: str = "", origin: str | None = None):
    name = host or server.address
    with (
        socket.create_connection(("127.0.0.1", server.port)) as here,
        connect(f"ws://{name}/graphql", sock=here, origin=origin, subprotocols=["graphql-ws"]) as opened,
    ):
        yield opened


def test_a_websocket_of_another_page_is_refused(server):
    for host, origin in (("", "https://evil.example"), ("", "null"), ("", "http://127.0.0.1:1"),
                         ("evil.example", None), ("evil.example", "http://evil.example")):  # fmt: skip
        with pytest.raises(InvalidStatus) as refused:
            next(websocket(server, host, origin))
        assert refused.value.response.status_code == 403


def test_a_websocket_of_the_ui_opens_and_mutates_nothing(server):
    for opened in websocket(server, origin=f"http://{server.address}"):
        opened.send(json.dumps({"type": "start", "id": "1", "payload": {"query": ATTACK}}))
        assert json.loads(opened.recv(timeout=60))["type"] == "error"
    assert "gpu" not in server.stopped_pools


def test_a_query_of_many_aliases_is_refused_at_once_also_over_a_websocket(server):
    many = "".join(f"a{number}: version " for number in range(200_000))
    answer = server.ask("POST", "/graphql", JSON, body=json.dumps({"query": f"{{ {many} }}"}))
    assert (answer.status, answer.text) == (413, "refused: the query has more than 10,000 tokens\n")
    for opened in websocket(server, origin=f"http://{server.address}"):
        opened.send(json.dumps({"type": "start", "id": "1", "payload": {"query": f"subscription {{ {many} }}"}}))
        assert "10,000 tokens" in opened.recv(timeout=20)
    few = "".join(f"a{number}: version " for number in range(100))
    assert server.ask("POST", "/graphql", JSON, body=json.dumps({"query": f"{{ {few} }}"})).status == 200


@pytest.mark.parametrize("body", [
    "", "{", "[]", "3", "{}", "[" * 100_000, '{"query": 3}', '{"query": {}}',
    '{"query": "{ version }", "variables": 3}',
    '{"query": "{ version }", "variables": "x"}', '{"query": "{ version }", "operationName": 3}',
    '{"query": "{ \\ud800 }"}', '{"query": "{ version", "variables": {}}', "\ud800",
])  # fmt: skip
def test_a_malformed_query_is_refused(server, body):
    answer = server.ask("POST", "/graphql", JSON, body=body)
    assert answer.status == 400, answer.text


@pytest.mark.parametrize("path", [
    "/download_debug/x", "/download_debug/%00", "/logs/..%2f", "/logs/../x", "/logs/x/y", "/logs/x", "/logs/%00/x.err",
    f"/logs/{'x/' * 3_000}y.err", f"/logs/{'x' * 300}/y.err", "/pictures/%00.png", f"/pictures/{'x' * 300}.png",
    "/notebook", "/notebook?repoLocName=x&path=x.ipynb", f"/{'x' * 300}.js", "/%00",
])  # fmt: skip
def test_an_unknown_page_is_404_not_500(server, path):
    answer = server.ask("GET", path)
    assert answer.status in (200, 400, 404), answer.text


# --- pictures ---------------------------------------------------------------------------------------------


def test_pictures_of_the_folder_of_results_are_served(server):
    answer = server.ask("GET", "/pictures/heads/curve.svg?v=1")
    assert (answer.status, answer.text) == (200, "curve.svg")
    assert answer.headers["Content-Type"].startswith("image/svg+xml")
    assert any("sandbox" in policy for policy in answer.headers.get_all("Content-Security-Policy"))


@pytest.mark.parametrize("path", [
    "../secret.png", "heads/../../secret.png", "%2e%2e/secret.png", "..%2fsecret.png", "//secret.png", "link.png",
    "heads/table.json", "heads/.hidden.png", "heads/.curve.png.1.tmp", "heads", "heads/", "", "heads/missing.png",
])  # fmt: skip
def test_only_pictures_are_served_from_the_home(server, path):
    answer = server.ask("GET", f"/pictures/{path}")
    assert answer.status == 404
    assert "secret" not in answer.text


# --- the same server behind both commands -----------------------------------------------------------------


def test_a_read_only_server_refuses_others_and_changes_nothing(tmp_path):
    with running(tmp_path, "disent_assets.web.server", "--read-only") as server:
        assert server.mutate("gpu", ("Origin", "https://evil.example")).status == 403
        assert "Unauthorized" in server.mutate("gpu").text
        assert server.stopped_pools == set()


def test_disent_dev_starts_the_protected_server(tmp_path):
    with running(tmp_path, "disent_assets.web.dev") as server:
        assert server.ask("GET", "/", ("Host", "evil.example")).status == 403
        assert server.ask("GET", "/").status == 200


# --- a browser --------------------------------------------------------------------------------------------

FOREIGN_PAGE = """<!doctype html><title>foreign</title>
<img src="TARGET/graphql?query=MUTATION"><img src="TARGET/pictures/heads/curve.png">
<script src="TARGET/graphql?query=MUTATION"></script><link rel="stylesheet" href="TARGET/graphql?query=MUTATION">
<iframe src="TARGET/"></iframe><iframe name="hidden"></iframe>
<form id="form" method="post" enctype="text/plain" target="hidden" action="TARGET/graphql">
<input name='{"query": QUOTED, "a": "' value='"}'></form>
<script>
const body = JSON.stringify({query: QUOTED}), done = {};
const tell = (name, outcome) => { done[name] = outcome; };
const attempt = (name, options) => fetch("TARGET/graphql", {method: "POST", body, ...options})
  .then(answer => answer.text().then(text => tell(name, answer.type + " " + text)), error => tell(name, "stopped"));
const socket = new Promise(resolve => {
  const opened = new WebSocket("TARGET/graphql".replace("http", "ws"), "graphql-ws");
  opened.onopen = () => resolve(tell("websocket", "open"));
  opened.onerror = () => resolve(tell("websocket", "stopped"));
});
const form = new Promise(resolve => {
  document.getElementsByName("hidden")[0].onload = resolve;
  document.getElementById("form").submit();
});
addEventListener("load", () => Promise.all([
  attempt("no-cors", {mode: "no-cors", headers: {"Content-Type": "text/plain"}}),
  attempt("no-cors JSON", {mode: "no-cors", headers: {"Content-Type": "text/plain; application/json"}}),
  attempt("JSON", {headers: {"Content-Type": "application/json"}}), socket, form,
  fetch("TARGET/server_info").then(() => tell("read", "read"), () => tell("read", "stopped")),
]).then(() => fetch("/done", {method: "POST", body: JSON.stringify(done)})));
</script>"""


class Foreign(BaseHTTPRequestHandler):
    """A page of another port, which reports what it could do."""

    page = b""
    outcome: dict[str, str]
    done: threading.Event

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page if self.path == "/" else b"")

    def do_POST(self) -> None:
        type(self).outcome = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.done.set()

    def log_message(self, *_: object) -> None: ...


def text_with(word: str, debugger: Path) -> str:
    """The text of the open page, as soon as the word is in it."""
    asked = {"id": 1, "method": "Runtime.evaluate", "params": {"expression": "document.body.innerText"}}
    with connect(debugger_of_page(debugger), max_size=None) as connection:

        def text() -> str:
            connection.send(json.dumps(asked))
            answer = json.loads(connection.recv(timeout=60))  # an error between two documents
            return answer.get("result", {}).get("result", {}).get("value", "")

        until(lambda: word in text())
        return text()


@needs_chromium
@pytest.mark.parametrize("page_of", ["127.0.0.1", "localhost"])
def test_a_page_of_another_port_can_do_nothing_in_a_browser(server, tmp_path, page_of):
    quoted = json.dumps(ATTACK).replace("'", "&#39;")
    page = FOREIGN_PAGE.replace("TARGET", f"http://{server.address}").replace("MUTATION", quote(ATTACK))
    handler = type("Handler", (Foreign,), {"page": page.replace("QUOTED", quoted).encode(), "outcome": {},
                                           "done": threading.Event()})  # fmt: skip
    before = len(server.log.read_text())
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        with browser(f"http://{page_of}:{foreign.server_port}/", tmp_path):
            assert handler.done.wait(120)
        foreign.shutdown()
    requests = [line for line in server.log.read_text()[before:].splitlines() if '"' in line]
    assert len(requests) >= 9
    assert [line for line in requests if " 403" not in line] == []
    assert set(handler.outcome) == {"no-cors", "no-cors JSON", "JSON", "websocket", "read"}
    assert set(handler.outcome.values()) == {"stopped"}
    assert "gpu" not in server.stopped_pools


@needs_chromium
def test_the_ui_loads_without_refused_requests(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    arguments = "--uvicorn-log-level", "info"
    with running(home, "disent_assets.web.server", *arguments, workspace=("-w", "workspace.yaml")) as server:
        before = len(server.log.read_text())
        with browser(f"http://{server.address}/assets", tmp_path / "browser") as debugger:
            text_with("utterances", debugger)
        requests = [line for line in server.log.read_text()[before:].splitlines() if '"' in line]
    assert any("WebSocket" in line and "[accepted]" in line for line in requests)
    assert [line for line in requests if re.search(r" [45]\d\d", line)] == []

"""Dagster's web server, which here obeys its user alone: no other web page and no other machine.

`python -m disent_assets.web_server` takes the arguments of `dagster-webserver`. `disent dev` starts it too.
Dagster's own server executes whatever reaches its port, also a mutation in the address of a picture on a foreign page.
`docs/operations.md`, section The UI, lists the rules for users.
"""

import sys
from contextlib import nullcontext
from email.message import Message
from pathlib import Path
from typing import Any

import dagster_webserver.app
import dagster_webserver.cli
from dagster_webserver.webserver import DagsterWebserver
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from disent_assets.instance import shown_state
from disent_assets.resources import home_folder

LOOPBACK = ("127.0.0.1", "::1")
NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Names under which a browser of this machine asks for it. Any other is an attempt to read from a foreign page."""
READS = ("GET", "HEAD", "OPTIONS")
PICTURES = (".png", ".svg")
NO_FOREIGN_USE = {
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Server(DagsterWebserver):
    """Dagster's server behind a `Guard`, with the pictures of the folder of results at `/pictures`."""

    def build_middleware(self) -> list[Middleware]:
        return [Middleware(Guard), *super().build_middleware()]

    def build_routes(self) -> list[BaseRoute]:
        home = Path(self._process_context.instance.root_directory).parent  # DAGSTER_HOME is DISENT_HOME/dagster
        return [Mount("/pictures", Pictures(directory=home / "plots", check_dir=False)), *super().build_routes()]

    async def graphql_http_endpoint(self, request: Request) -> HTMLResponse | JSONResponse | PlainTextResponse:
        """Queries and mutations come by POST; a GET only opens the page in which one writes them."""
        if request.method in READS and ("text/html" not in request.headers.get("Accept", "") or request.query_params):
            return refused("send a query by POST, as application/json")
        return await super().graphql_http_endpoint(request)


class Pictures(StaticFiles):
    """Pictures of a folder; an SVG runs no script, also when it is opened as a page."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if Path(path).suffix not in PICTURES or any(part.startswith(".") for part in Path(path).parts):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = NO_SCRIPT
        response.headers["Cache-Control"] = "no-cache"  # the browser asks whether the picture has changed
        return response


class Guard:
    """Refuses what the user's own browser and programs would not ask, and forbids other pages to embed answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Any) -> None:
            if message["type"].endswith("http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in NO_FOREIGN_USE.items():
                    headers.append(name, value) if name == "Content-Security-Policy" else headers.update({name: value})
            await send(message)

        reason = refusal(scope) if scope["type"] in ("http", "websocket") else None
        answer = self.app if reason is None else refused(reason)
        await answer(scope, receive, send_guarded)


def refused(reason: str) -> PlainTextResponse:
    return PlainTextResponse(f"refused: {reason}\n", status_code=403)


def refusal(scope: Scope) -> str | None:
    """Why a request or a websocket is refused, or None."""
    address, port = scope["server"]
    headers, method = Headers(scope=scope), scope.get("method", "GET")
    hosts, origins = headers.getlist("Host"), headers.getlist("Origin")
    own = [name if port == 80 else f"{name}:{port}" for name in NAMES]
    if address not in LOOPBACK or len(hosts) != 1 or hosts[0].lower() not in own:
        return f"this server answers at http://{own[0]} only"
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
        return "another web page has sent this"
    if not _is_from_here(headers, method):
        return "another web page has asked for this"
    if method not in READS and not _is_json(headers):
        return "send application/json"
    return None


def _is_from_here(headers: Headers, method: str) -> bool:
    """Whether the browser, if it is one, says that no other page is behind a request; a link may open a page."""
    site = headers.get("Sec-Fetch-Site", "none")
    opens_page = (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == ("navigate", "document")
    return site in ("same-origin", "none") or (opens_page and method in READS)


def _is_json(headers: Headers) -> bool:
    """Whether the content is JSON; `text/plain; application/json`, which Dagster takes as well, needs no preflight."""
    types = headers.getlist("Content-Type")
    message = Message()
    message["Content-Type"] = types[0] if len(types) == 1 else ""
    return message.get_content_type() == "application/json"


def replace_in_dagster_dev() -> None:
    """Where `dagster dev` of this process would start Dagster's web server, it starts this one."""
    from dagster._cli import dev

    start, left = dev.open_ipc_subprocess, [__name__]

    def start_ours(parts: list[str], **options: Any) -> Any:
        ours = [left.pop() if part == "dagster_webserver" else part for part in parts]
        if left:
            raise RuntimeError("this version of Dagster starts its web server in another way")
        return start(ours, **options)

    dev.open_ipc_subprocess = start_ours


def main() -> None:
    """Run `dagster-webserver` with this server; `--read-only` also on a folder of results that may only be read."""
    dagster_webserver.app.DagsterWebserver = Server
    only_shows = "--read-only" in sys.argv
    with shown_state(home_folder()) if only_shows else nullcontext():
        dagster_webserver.cli.main()


if __name__ == "__main__":
    main()

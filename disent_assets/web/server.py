"""Run Dagster's web server behind the request guard, so that no other web page or machine can use it.

`python -m disent_assets.web.server` takes the arguments of `dagster-webserver`. `disent dev` starts it too.
Dagster's own server executes whatever reaches its port, even a mutation in the URL of a picture on a foreign page.
`docs/operations.md`, section The UI, lists the rules for users.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dagster_webserver.app
import dagster_webserver.cli
from dagster_webserver.webserver import DagsterWebserver
from graphql import GraphQLError, parse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from starlette.websockets import WebSocket

from disent.home import home_folder
from disent_assets.run.dagster_private import dev_module
from disent_assets.settings.environment import is_local
from disent_assets.settings.instance import shown_state
from disent_assets.web.request_guard import READS, Guard, refused
from disent_core.errors import DisentError
from disent_core.storage.results import fetch
from disent_core.text import parsed_json

PICTURES = (".png", ".svg")
MOST_TOKENS = 10_000
"""Most tokens of a GraphQL query; the largest of the UI, `AssetHealthQuery` of Dagster 1.13.27, has 1,810."""
_TOO_LARGE = f"the query has more than {MOST_TOKENS:,} tokens"
NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Server(DagsterWebserver):
    """Dagster's server behind a `Guard`; serves the pictures in the folder of results at `/pictures`."""

    def build_middleware(self) -> list[Middleware]:
        return [Middleware(Guard), *super().build_middleware()]

    def build_routes(self) -> list[BaseRoute]:
        home = home_folder()  # tells this process whether it is in a bucket
        of_state = Path(self._process_context.instance.root_directory).parent  # DAGSTER_HOME is DISENT_HOME/dagster
        plots = (of_state if is_local() else home) / "plots"
        return [Mount("/pictures", Pictures(directory=plots, check_dir=False)), *super().build_routes()]

    async def graphql_http_endpoint(self, request: Request) -> HTMLResponse | JSONResponse | PlainTextResponse:
        """Accept queries and mutations by POST only; a GET opens the page in which to write them."""
        if request.method in READS and ("text/html" not in request.headers.get("Accept", "") or request.query_params):
            return refused(403, "send a query by POST, as application/json")
        if request.method not in READS and not _is_query(await request.body()):
            return refused(400, 'send JSON: {"query": TEXT, "variables": OBJECT, "operationName": TEXT}')
        return await super().graphql_http_endpoint(request)

    async def download_debug_file_endpoint(self, request: Request) -> StreamingResponse:
        with self.request_context(request) as context:
            if context.instance.get_run_by_id(request.path_params["run_id"]) is None:
                raise HTTPException(404, "there is no such run")
        return await super().download_debug_file_endpoint(request)

    async def download_captured_logs_endpoint(self, request: Request) -> FileResponse:
        try:
            return await super().download_captured_logs_endpoint(request)
        except ValueError as error:  # a path that leaves the folder, or is invalid
            raise HTTPException(404, "there is no such log") from error

    async def execute_graphql_request(self, request: Request, query: str, *rest: Any, **named: Any) -> Any:
        """Execute a query of bounded size, as every alias of a field computes the field again."""
        if _is_too_large(query):
            return refused(413, _TOO_LARGE)
        return await super().execute_graphql_request(request, query, *rest, **named)

    async def execute_graphql_subscription(
        self, websocket: WebSocket, operation_id: str, query: str, *rest: Any, **named: Any
    ) -> Any:
        if _is_too_large(query):
            return None, {"message": _TOO_LARGE}
        return await super().execute_graphql_subscription(websocket, operation_id, query, *rest, **named)


def _is_query(content: bytes) -> bool:
    """Return whether a request has the form that Dagster takes for granted."""
    try:
        sent = parsed_json(content.decode())
    except ValueError:
        return False
    kinds = {"query": str, "variables": dict, "operationName": str}
    return isinstance(sent, dict) and all(isinstance(sent.get(name), kind | None) for name, kind in kinds.items())


def _is_too_large(query: str) -> bool:
    try:
        parse(query, no_location=True, max_tokens=MOST_TOKENS)
    except GraphQLError as error:
        return f"{MOST_TOKENS} tokens" in str(error)  # Dagster reports other errors itself
    return False


class Pictures(StaticFiles):
    """Serves pictures of a folder, or of a bucket behind it; an SVG runs no script, even when opened as a page."""

    async def check_config(self) -> None:
        """Skip the check: the folder only exists from the first picture on."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if Path(path).suffix not in PICTURES or any(part.startswith(".") for part in Path(path).parts):
            raise HTTPException(404)
        try:
            await run_in_threadpool(fetch, Path(str(self.directory), path))
        except DisentError as error:
            raise HTTPException(503, str(error)) from error
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = NO_SCRIPT
        response.headers["Cache-Control"] = "no-cache"  # the browser asks whether the picture has changed
        return response


def replace_in_dagster_dev() -> None:
    """Make `dagster dev` in this process start this web server instead of Dagster's."""
    dev = dev_module()
    start, left = dev.open_ipc_subprocess, [__name__]

    def start_ours(parts: list[str], **options: Any) -> Any:
        ours = [left.pop() if part == "dagster_webserver" else part for part in parts]
        if left:
            raise RuntimeError("this version of Dagster starts its web server in another way")
        return start(ours, **options)

    dev.open_ipc_subprocess = start_ours


def main() -> None:
    """Run `dagster-webserver` with this server; `--read-only` also works on a read-only folder of results."""
    dagster_webserver.app.DagsterWebserver = Server
    only_shows = "--read-only" in sys.argv
    with shown_state(home_folder()) if only_shows else nullcontext():
        dagster_webserver.cli.main()


if __name__ == "__main__":
    main()

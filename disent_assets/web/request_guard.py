"""Reject requests from other web pages and other machines.

Browsers let any page send requests to any port of this machine, and a page whose host name is rebound to this address
(DNS rebinding) can read the answers. `Guard` wraps a web server and rejects both.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Collection
from email.message import Message
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "::1")
NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Host names that a browser on this machine uses. Any other is an attempt to read from a foreign page."""
READS = ("GET", "HEAD", "OPTIONS")
NO_FOREIGN_USE = {
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Reject requests that do not come from the user's browser or programs; forbid other pages to embed answers.

    `shared` is a name or address under which other machines may connect too; None: this machine only. `refuse` creates
    the response from the status and the reason.
    """

    def __init__(
        self, app: ASGIApp, shared: str | None = None, refuse: "Callable[[int, str], Response] | None" = None
    ) -> None:
        self.app = app
        self.shared = shared
        self.refuse = refuse or refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Any) -> None:
            if message["type"].endswith("http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in NO_FOREIGN_USE.items():
                    headers.append(name, value) if name == "Content-Security-Policy" else headers.update({name: value})
            await send(message)

        why = refusal(scope, self.shared) if scope["type"] in ("http", "websocket") else None
        answer = self.app if why is None else self.refuse(*why)
        await answer(scope, receive, send_guarded)


class Login:
    """Reject requests without the token, sent as `Authorization: Bearer TOKEN` or as the password of a browser login.

    `public` are paths that need none.
    """

    def __init__(self, app: ASGIApp, token: str, public: Collection[str] = ()) -> None:
        self.app, self.token, self.public = app, token.encode(), public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_let_in = scope["type"] != "http" or scope["path"] in self.public or self._has_token(Headers(scope=scope))
        await (self.app if is_let_in else _asked_for_token)(scope, receive, send)

    def _has_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("Authorization", "").partition(" ")
        token = given.encode("latin-1")
        if kind.lower() == "basic":
            try:
                token = base64.b64decode(token, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        return kind.lower() in ("bearer", "basic") and hmac.compare_digest(token, self.token)


_asked_for_token = JSONResponse(
    {"error": "this service needs its token; send the header Authorization: Bearer TOKEN"},
    status_code=401,
    headers={"WWW-Authenticate": 'Basic realm="disent", charset="UTF-8"', "Cache-Control": "no-store"},
)


def refused(status: int, reason: str) -> PlainTextResponse:
    return PlainTextResponse(f"refused: {reason}\n", status_code=status)


def refusal(scope: Scope, shared: str | None = None) -> tuple[int, str] | None:
    """Return the status and the reason for rejecting a request or websocket, or None; `shared` as in `Guard`."""
    address, port = scope["server"]
    headers, method = Headers(scope=scope), scope.get("method", "GET")
    hosts, origins = headers.getlist("Host"), headers.getlist("Origin")
    names = [name if port == 80 else f"{name}:{port}" for name in _names(address, shared)]
    is_near = shared is not None or address in LOOPBACK
    if not is_near or len(hosts) != 1 or hosts[0].lower() not in names:
        return 403, f"this server answers at http://{names[0]} only"
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
        return 403, "another web page has sent this"
    if not _is_from_here(headers, method):
        return 403, "another web page has asked for this"
    if method not in READS and not _is_json(headers):
        return 415, "send application/json"
    return None


def _names(address: str, shared: str | None) -> tuple[str, ...]:
    """Return the names that a Host header may contain. DNS can't rebind the address of the connection itself."""
    if shared is None:
        return NAMES
    reached = address.removeprefix("::ffff:")  # IPv4 on an IPv6 socket
    return tuple(dict.fromkeys([*(in_address(name) for name in (shared.lower(), reached)), *NAMES]))


def in_address(name: str) -> str:
    """Return a name or address as in a URL: IPv6 in brackets."""
    return f"[{name}]" if ":" in name else name


def _is_from_here(headers: Headers, method: str) -> bool:
    """Return whether fetch metadata, if sent, rules out another page; links may open a page."""
    site = headers.get("Sec-Fetch-Site", "none")
    opens_page = (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == ("navigate", "document")
    return site in ("same-origin", "none") or (opens_page and method in READS)


def _is_json(headers: Headers) -> bool:
    """Return whether the content is JSON; Dagster also takes `text/plain; application/json`, sent without preflight."""
    types = headers.getlist("Content-Type")
    message = Message()
    message["Content-Type"] = types[0] if len(types) == 1 else ""
    return message.get_content_type() == "application/json"

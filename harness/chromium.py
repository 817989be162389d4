"""A real headless browser, controlled through its debugger."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, the Debian package chromium")


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.1)


@contextmanager
def browser(address: str, profile: Path) -> Iterator[Path]:
    """Open a page; yield the file to which Chromium writes the port of its debugger."""
    command = [str(CHROMIUM), *QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0", address]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield profile / "DevToolsActivePort"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def debugger_of_page(debugger: Path) -> str:
    """Return the address of the websocket that controls the open page."""
    until(lambda: debugger.is_file() and debugger.read_text())
    pages = json.load(urlopen(f"http://127.0.0.1:{debugger.read_text().split()[0]}/json", timeout=60))
    return next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"]


class Tab:
    """The open page.

    Attributes:
        events: reports from the browser: its log, errors, requests.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection, self.count = connection, 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command of Chromium's debugger protocol and return its result."""
        self.count += 1
        self.connection.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while (answer := json.loads(self.connection.recv(timeout=60))).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def loads(self, act: Callable[[], object]) -> None:
        """Perform an action that opens another page, and wait until that page has loaded."""
        self.value("window.isLeft = true")
        act()
        until(lambda: self.value("!window.isLeft && document.readyState === 'complete'"))

    def open(self, address: str) -> None:
        """Go to an address."""
        self.loads(lambda: self.ask("Page.navigate", url=address))

    def press(self, key: str, times: int = 1) -> None:
        """Press a key: Tab, Enter, Space or ArrowDown."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " "), "ArrowDown": (40, "")}[key]
        for _ in range(times):
            pressed = {"key": text.strip("\r") or key, "code": key, "windowsVirtualKeyCode": code}
            self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """Errors and warnings in the console, including policy violations."""
        loud = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [
            event
            for event in self.events
            if event.get("method") in loud
            or (event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] in ("warning", "error"))
        ]

    @property
    def requested(self) -> set[str]:
        """Requested URLs."""
        asked = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return {event["params"]["request"]["url"] for event in asked}


@contextmanager
def tab(profile: Path) -> Iterator[Tab]:
    """Open a browser with one empty page."""
    with browser("about:blank", profile) as debugger, connect(debugger_of_page(debugger), max_size=None) as connection:
        yield Tab(connection)

"""Measure disent serve under load: clients that ask again as soon as they are answered, and sockets that stay silent.

python -m bench.serve INDEX [--clients 200] [--seconds 60] [--half-open 0] [--batch 1]

A client keeps its connection and searches by meaning, texts of the index that it mixes anew. The server is a process
of its own. It prints figures and exits with 1 if a client was starved: it had no answer, or less than a quarter of
the median's.
"""

import argparse
import asyncio
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import disent
from bench.measuring import peak_bytes, processor_name

SHARE = 0.25


@dataclass
class Client:
    """Record of one client: the seconds of each answer, and counts by status."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int | str] = field(default_factory=Counter)


@contextmanager
def served(index: Path) -> Iterator[tuple[int, int]]:
    """Run the command; yield its port and its process."""
    command = [sys.executable, "-m", "disent_assets.cli", "serve", str(index), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        try:
            yield int(address.rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def query(words: list[str], draw: random.Random) -> str:
    """Return a new text made of words of the index."""
    return " ".join(draw.choices(words, k=draw.randint(3, 8)))


async def ask(client: Client, port: int, until: float, words: list[str], draw: random.Random, batch: int) -> None:
    """Search repeatedly; reconnect after an error or when the server closes the connection."""
    writer = None
    while time.perf_counter() < until:
        content = json.dumps({"queries": [query(words, draw) for _ in range(batch)], "k": 10}).encode()
        head = f"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        started = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            status, wait = await answer(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            client.statuses[type(error).__name__] += 1
            writer = None
            await asyncio.sleep(0.1)
            continue
        client.statuses[status] += 1
        if status == 200:
            client.seconds.append(time.perf_counter() - started)
        await asyncio.sleep(wait)
    if writer is not None:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, float]:
    """Return the status, and the seconds to wait before the next request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
    await reader.readexactly(int(headers["content-length"]))
    return int(head.split()[1]), float(headers.get("retry-after", 0))


async def stay_silent(port: int, until: float) -> None:
    """Send the start of a request, then a byte a second; start again when the server closes the connection."""
    while time.perf_counter() < until:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/search HTTP/1.1\r\nX: ")
            while time.perf_counter() < until and not writer.is_closing():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(1)
            writer.close()
        except OSError:
            await asyncio.sleep(0.1)


async def load(port: int, words: list[str], clients: int, seconds: float, half_open: int, batch: int) -> list[Client]:
    until = time.perf_counter() + seconds
    asked = [Client() for _ in range(clients)]
    silent = [stay_silent(port, until) for _ in range(half_open)]
    await asyncio.gather(
        *silent,
        *(ask(client, port, until, words, random.Random(number), batch) for number, client in enumerate(asked)),
    )
    return asked


def is_starved(counts: list[int]) -> bool:
    """Return whether a client had no answers, or far fewer than the others."""
    return min(counts) < max(SHARE * statistics.median(counts), 1)


def quantile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[round(100 * share) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--half-open", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    given = parser.parse_args()
    index = disent.Index.open(given.index)
    words = sorted({word for text in index.texts[:1000] for word in text.split()})
    with ExitStack() as running:
        port, process = running.enter_context(served(given.index))
        clients = asyncio.run(load(port, words, given.clients, given.seconds, given.half_open, given.batch))
        peak = peak_bytes(process)
    seconds = [second for client in clients for second in client.seconds]
    counts = [len(client.seconds) for client in clients]
    statuses = sum((client.statuses for client in clients), Counter())
    print(f"{len(index):,} texts, {index.head_title}; {given.clients} clients, {given.half_open} silent sockets")
    if len(seconds) > 1:
        print(f"{len(seconds) / given.seconds:,.0f} answers a second of {given.batch} queries each")
        print(f"p50 {1e3 * quantile(seconds, 0.5):,.0f} ms, p99 {1e3 * quantile(seconds, 0.99):,.0f} ms")
    print(f"answers of a client: {min(counts)} to {max(counts)}, median {statistics.median(counts):.0f}")
    print(f"statuses: {dict(statuses)}")
    print(f"the server took {peak / 2**20:,.0f} MiB of memory at most")
    load_average = Path("/proc/loadavg").read_text().split()[0]
    print(f"{processor_name()}, load {load_average}, Python {platform.python_version()}")
    if is_starved(counts):
        sys.exit("a client was starved")


if __name__ == "__main__":
    main()

"""Download files: complete, verified, bounded in size and time, and resumed after an interruption."""

import logging
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException, HTTPMessage
from io import BufferedWriter
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from disent_core.errors import CorpusError, located, quoted
from disent_core.progress import Progress
from disent_core.storage.bucket import SCHEMES as STORES
from disent_core.storage.bucket import Bucket
from disent_core.storage.files import locked, storage_errors
from disent_core.storage.names import safe_part
from disent_core.storage.results import sha256_of

log = logging.getLogger(__name__)
SCHEMES = ("http", "https", "file", *STORES)
MOST_BYTES = 10 << 30
"""Limit of a download whose size is not given."""
_CHUNK_BYTES = 1 << 18
_LEAST_BYTES, _WITHIN_SECONDS = 60_000, 60
"""A server that sends fewer bytes than this in so many seconds, or before it breaks off, is too slow."""
_TIMEOUT_SECONDS = 60
_PAUSES = (1.0, 4.0, 16.0)
"""Seconds between attempts after the server failed or was unreachable."""
_TRANSIENT = (429, 500, 502, 503, 504)
_LENGTH = re.compile("[0-9]{1,18}")
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416


def file_name(url: str) -> str:
    """Return the file name of a download: the last part of the address, without query and fragment."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("url has a name and a password, which are not sent; sign the address, or download it yourself")
    if parts.scheme not in SCHEMES:
        raise ValueError(f"url {shown(url)!r} can't be downloaded; use {', '.join(SCHEMES)}")
    try:
        return safe_part(parts.path.rpartition("/")[2])
    except ValueError as error:
        raise ValueError(f"url {shown(url)!r} does not end in the name of a file: {error}") from error


def shown(url: str) -> str:
    """Return the address for messages, since its query may be a signature that lets anyone download the file."""
    return url.partition("?")[0]


def fetch(url: str, destination: Path, *, sha256: str | None = None, size: int | None = None) -> Path:
    """Download a file, or an object in a store such as s3://bucket/key, unless it already exists as expected.

    `destination` is either the complete file or absent. Received bytes are kept in `DESTINATION.part`. A later call
    resumes from them if a checksum or the server's validator (ETag, Last-Modified) can prove that the file has not
    changed. At most `size` bytes, or `MOST_BYTES`, are received. Concurrent calls for one destination wait for each
    other.
    """
    if urlsplit(url).scheme not in SCHEMES:
        raise CorpusError(located(shown(url), None, "can't be downloaded", f"Use {', '.join(SCHEMES)}"))
    with locked(destination):
        if destination.is_file():
            problem = _problem(destination, sha256, size)
            if problem is None:
                return destination
            log.warning("%s: %s; downloading it again", destination, problem)
        part = destination.with_name(f"{destination.name}.part")
        if urlsplit(url).scheme in STORES:
            _receive_object(url, part, size)
        else:
            _receive_all(url, part, resumable=sha256 is not None, size=size)
        if problem := _problem(part, sha256, size):
            part.unlink()
            raise _unexpected(url, problem)
        part.replace(destination)
        _validator_path(part).unlink(missing_ok=True)
    return destination


def _unexpected(url: str, problem: str) -> CorpusError:
    remedy = "Try again, or correct the expected value"
    return CorpusError(located(shown(url), None, f"this is not the expected file: {problem}", remedy))


def _problem(path: Path, sha256: str | None, size: int | None) -> str | None:
    """Describe the problem with a complete file, or return None."""
    actual_size = path.stat().st_size
    if size is not None and actual_size != size:
        return f"it has {actual_size:,} bytes, expected {size:,}"
    if sha256 is None:
        return None
    actual = sha256_of(path)
    return None if actual == sha256.lower() else f"its SHA-256 is {actual}, expected {sha256}"


def _receive_object(url: str, part: Path, size: int | None) -> None:
    """Receive a store's object from its beginning; failed requests are repeated."""
    address, _, key = url.rpartition("/")
    bucket = Bucket(address)
    actual = bucket.size(key)
    if actual is None:
        raise CorpusError(located(shown(url), None, "there is no such object", "Check the bucket and the key"))
    most = MOST_BYTES if size is None else size
    if actual > most:
        raise _unexpected(url, f"it has {actual:,} bytes; the limit is {most:,}")
    with storage_errors(part):
        bucket.download(key, part, actual)


def _receive_all(url: str, part: Path, *, resumable: bool, size: int | None) -> None:
    """Receive until the file is complete; retry at once after new bytes arrived, else after a pause."""
    by_hand = f"Check the address and try again, or put the file there yourself: {part.with_suffix('')}"
    pauses = iter(_PAUSES)
    while size is None or _size_of(part) != size:
        size_before = _size_of(part)
        try:
            with storage_errors(part):
                _receive(url, part, resumable=resumable, size=size)
            return
        except _TooLargeError as error:
            part.unlink(missing_ok=True)
            if size is not None:
                raise _unexpected(url, f"{error}, expected {size:,}") from error
            problem, remedy = f"{error}; the limit is {MOST_BYTES:,}", "If it is the right file, set its `size`"
            raise CorpusError(located(shown(url), None, problem, remedy)) from error
        except _RefusedError as error:
            raise CorpusError(located(shown(url), None, str(error), by_hand)) from error
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _RANGE_NOT_SATISFIABLE and size_before:
                part.unlink()  # longer than the file on the server: start again
                continue
            pause = next(pauses, None) if error.code in _TRANSIENT else None
            problem = f"the server says {error.code} {error.reason}"
        except (OSError, HTTPException) as error:
            if _size_of(part) - size_before >= _LEAST_BYTES:
                log.warning("%s: interrupted after %s bytes (%s); resuming", shown(url), f"{_size_of(part):,}", error)
                continue
            is_transient = urlsplit(url).scheme != "file"
            pause, problem = next(pauses, None) if is_transient else None, f"the download failed ({error})"
        if pause is None:
            raise CorpusError(located(shown(url), None, problem, by_hand))
        log.warning("%s: %s; trying again in %.0f s", shown(url), problem, pause)
        time.sleep(pause)


class _TooLargeError(Exception):
    """The server sends more bytes than the file may have."""


class _RefusedError(Exception):
    """Trying again would not help."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to the same scheme, or from http to https."""

    def http_error_302(  # called for every kind of redirect, before the base class reads the address
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        address = headers.get("Location") or headers.get("URI") or ""
        old, new = urlsplit(req.full_url).scheme, ""
        with suppress(ValueError):  # no address
            new = urlsplit(urljoin(req.full_url, address)).scheme
        if new not in {old, "https"}:
            raise _RefusedError(f"the server redirects from {old} to {quoted(shown(address))}, which is not followed")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_OPENER = urllib.request.build_opener(_Redirects)


def _receive(url: str, part: Path, *, resumable: bool, size: int | None) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "disent"})
    validator = _validator_path(part).read_text() if _validator_path(part).is_file() else ""
    if (received := _size_of(part)) and (validator or resumable):
        request.add_header("Range", f"bytes={received}-")
        if validator:
            request.add_header("If-Range", validator)
    with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as response:
        start = received if getattr(response, "status", None) == _PARTIAL_CONTENT else 0
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise HTTPException(f"asked for bytes from {start}, got {response.headers.get('Content-Range')}")
        etag = response.headers.get("ETag") or ""  # a weak ETag does not imply equal bytes
        strong = "" if etag.startswith("W/") else etag
        _validator_path(part).write_text(strong or response.headers.get("Last-Modified") or "")
        length = response.headers.get("Content-Length") or ""
        total = start + int(length) if _LENGTH.fullmatch(length) else None
        most = MOST_BYTES if size is None else size
        if total is not None and total > most:
            raise _TooLargeError(f"it has {total:,} bytes")
        with part.open("ab" if start else "wb") as file:
            _copy(getattr(response, "read1", response.read), file, part.name, start, total, most)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and _size_of(part) < total:
        raise ConnectionError(f"connection closed after {_size_of(part):,} of {total:,} bytes")


def _copy(
    read: Callable[[int], bytes], file: BufferedWriter, name: str, start: int, total: int | None, most: int
) -> None:
    progress = Progress(log, total and total / 1e6, "MB", what=name, first=start / 1e6)
    done = done_then = start
    then = time.monotonic()
    while chunk := read(_CHUNK_BYTES):
        done += len(chunk)
        if done > most:
            raise _TooLargeError(f"it has more than {most:,} bytes")
        file.write(chunk)
        progress.advance(done / 1e6)
        if (now := time.monotonic()) - then >= _WITHIN_SECONDS:
            if done - done_then < _LEAST_BYTES:
                raise _RefusedError(f"the server sent {done - done_then:,} bytes in {now - then:.0f} s")
            then, done_then = now, done


def _validator_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _size_of(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0

"""One file from the network: whole, checked, resumed after a break."""

import hashlib
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from http.client import HTTPException
from io import BufferedWriter
from pathlib import Path
from urllib.parse import urlsplit

from disent_core.errors import CorpusError, located
from disent_core.progress import Progress
from disent_core.storage.atomic import locked, storage_errors
from disent_core.storage.tables import safe_part

_LOG = logging.getLogger(__name__)
SCHEMES = ("http", "https", "file")
_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 60
_PAUSES = (1.0, 4.0, 16.0)
"""Seconds before a server is asked again that failed or was not there."""
_PASSING = (429, 500, 502, 503, 504)
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416
_REMEDY = "Check the address and try again, or download the file by hand and set `path`"


def file_name(url: str) -> str:
    """The name under which a download is stored: the last part of the address, without query and fragment.

    Raises:
        ValueError: if the address can't be downloaded from, or has no part that is a name and nothing else.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"url {url!r} can't be downloaded; use {', '.join(SCHEMES)}")
    try:
        return safe_part(parts.path.rpartition("/")[2])
    except ValueError as error:
        raise ValueError(f"url {url!r} does not end in the name of a file: {error}") from error


def fetch(url: str, destination: Path, *, sha256: str | None = None, size: int | None = None) -> Path:
    """Download a file unless it is there already; `destination` is the whole file or nothing.

    What has come is kept in `DESTINATION.part`, so that a call after a break goes on from there, if a check
    sum or the server's validator (ETag, Last-Modified) can tell that the file is still the same one. Calls
    of several processes for one destination wait for each other.

    Args:
        url: http, https or file.
        destination: where the file goes; a file that is there and passes the checks is kept.
        sha256: its hex digest, if known.
        size: in bytes, if known.

    Raises:
        CorpusError: if the network fails, or the size or the digest is not the expected one.
    """
    if urlsplit(url).scheme not in SCHEMES:
        raise CorpusError(located(url, None, "can't be downloaded", "Use http, https or file"))
    with locked(destination):
        if destination.is_file():
            fault = _fault(destination, sha256, size)
            if fault is None:
                return destination
            _LOG.warning("%s: %s; downloading it again", destination, fault)
        part = destination.with_name(f"{destination.name}.part")
        _receive_all(url, part, resumable=sha256 is not None, size=size)
        if fault := _fault(part, sha256, size):
            part.unlink()
            remedy = "Try again, or correct the expected value in the configuration"
            raise CorpusError(located(url, None, f"this is not the expected file: {fault}", remedy))
        part.replace(destination)
        _validator_path(part).unlink(missing_ok=True)
    return destination


def _fault(path: Path, sha256: str | None, size: int | None) -> str | None:
    """What is wrong with a complete file, or None."""
    found_size = path.stat().st_size
    if size is not None and found_size != size:
        return f"it has {found_size:,} bytes, expected {size:,}"
    if sha256 is None:
        return None
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return None if found == sha256.lower() else f"its SHA-256 is {found}, expected {sha256}"


def _receive_all(url: str, part: Path, *, resumable: bool, size: int | None) -> None:
    """Receive until the file is whole; after a break go on at once, or later where that brought nothing new."""
    pauses = iter(_PAUSES)
    while size is None or _bytes_in(part) != size:
        before = _bytes_in(part)
        try:
            with storage_errors(part):
                _receive(url, part, resumable=resumable)
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _RANGE_NOT_SATISFIABLE and before:
                part.unlink()  # longer than the file is now: begin anew
                continue
            pause = next(pauses, None) if error.code in _PASSING else None
            found = f"the server says {error.code} {error.reason}"
        except (OSError, HTTPException) as error:
            if _bytes_in(part) > before:
                _LOG.warning("%s: broken off after %s bytes (%s); going on", url, f"{_bytes_in(part):,}", error)
                continue
            can_pass = urlsplit(url).scheme != "file"
            pause, found = next(pauses, None) if can_pass else None, f"the download failed ({error})"
        if pause is None:
            raise CorpusError(located(url, None, found, _REMEDY))
        _LOG.warning("%s: %s; trying again in %.0f s", url, found, pause)
        time.sleep(pause)


def _receive(url: str, part: Path, *, resumable: bool) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "disent"})
    validator = _validator_path(part).read_text() if _validator_path(part).is_file() else ""
    if (have := _bytes_in(part)) and (validator or resumable):
        request.add_header("Range", f"bytes={have}-")
        if validator:
            request.add_header("If-Range", validator)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        start = have if getattr(response, "status", None) == _PARTIAL_CONTENT else 0
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise HTTPException(f"asked for bytes from {start}, got {response.headers.get('Content-Range')}")
        _keep_validator(part, response.headers)
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with part.open("ab" if start else "wb") as file:
            _copy(response.read, file, part.name, start, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and _bytes_in(part) < total:
        raise ConnectionError(f"closed after {_bytes_in(part):,} of {total:,} bytes")


def _copy(read: Callable[[int], bytes], file: BufferedWriter, name: str, start: int, total: int | None) -> None:
    progress = Progress(_LOG, total and total / 1e6, "MB", what=name, first=start / 1e6)
    done = start
    while chunk := read(_CHUNK_BYTES):
        file.write(chunk)
        done += len(chunk)
        progress.advance(done / 1e6)


def _keep_validator(part: Path, headers: Message) -> None:
    etag = headers.get("ETag") or ""
    strong = "" if etag.startswith("W/") else etag
    _validator_path(part).write_text(strong or headers.get("Last-Modified") or "")


def _validator_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _bytes_in(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0

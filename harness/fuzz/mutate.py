"""Mutate small files: their bytes, lines and fields, and the set of files in a folder."""

import random
import re
from collections.abc import Callable

Files = dict[str, bytes]
"""Path inside the folder -> content."""

TOKENS = (
    b"", b" ", b"\t", b"\n", b"\r\n", b"\x00", b"\x1b[2J", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80",
    b"0", b"-1", b"1e999", b"nan", b"-inf", b"99999999999999999999999", b"0x10", b"1_0", b"\xd9\xa1", b"9" * 5000,
    b"[", b"]", b"[a : b]", b"[[", b"{", b"}", b"{}", b"null", b"true", b'"', b"'", b"''", b'""', b"\\", b"\\ud800",
    b"\\u0000", b"[" * 3000, b"{\"a\":" * 3000, b"O", b"B-", b"I-x", b"B-x-y", b"-DOCSTART-", b"# id = 1", b"# text:",
    b"../../x", b"/etc/passwd", b"~", b"{language}", b"package:..", b"<script>", b"<mask>", b"\xee\x80\x80",
    b"\xe2\x80\xae", b"\xe2\x80\xa8", b"a\xcc\x81", b"\xe1\x84\x80\xe1\x85\xa1", b"\xf0\x9f\x98\x80", b"A" * 70_000,
    b"2020-01-01", b"1979-05-27T07:32:00Z", b"en", b"de-DE", b"zh-TW", b"en-en", b"x+y", b"language", b"text_key",
)  # fmt: skip
"""Tokens that readers may stumble on."""

_FIELD = re.compile(rb"[^\s,\"=:|]+")


def mutated(files: Files, rng: random.Random) -> Files:
    """Return the files with one to four mutations, most often in a single file."""
    changed = dict(files)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not changed:
            break
        if rng.random() < 0.04:
            rng.choice(_OF_FILES)(changed, rng)
        else:
            name = rng.choice(sorted(changed))
            changed[name] = rng.choice(_OF_CONTENT)(changed[name], rng)
    return changed


# --- bytes ------------------------------------------------------------------------------------------------


def _span(length: int, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(length + 1)
    return start, min(length, start + int(rng.expovariate(0.1)) + 1)


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\x01"
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    start, end = _span(len(content), rng)
    return content[:start] + rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * (end - start) + content[end:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    start, _ = _span(len(content), rng)
    new = rng.choice(TOKENS) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 12))
    return content[:start] + new + content[start:]


def _cut(content: bytes, rng: random.Random) -> bytes:
    start, end = _span(len(content), rng)
    return content[:start] + content[end:]


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start, end = _span(len(content), rng)
    return content[:end] + content[start:end] * rng.choice((1, 2, 50)) + content[end:]


# --- lines and fields -------------------------------------------------------------------------------------


def _lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[[bytes, random.Random], bytes]:
    def mutation(content: bytes, rng: random.Random) -> bytes:
        lines = content.split(b"\n")
        change(lines, rng)
        return b"\n".join(lines)

    return mutation


def _drop(lines: list[bytes], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def _twice(lines: list[bytes], rng: random.Random) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))


def _swap(lines: list[bytes], rng: random.Random) -> None:
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


def _join(lines: list[bytes], rng: random.Random) -> None:
    place = rng.randrange(len(lines))
    lines[place : place + 2] = [rng.choice((b"", b" ", b"\t", b"\r")).join(lines[place : place + 2])]


def _field(content: bytes, rng: random.Random) -> bytes:
    fields = list(_FIELD.finditer(content))
    if not fields:
        return _insert(content, rng)
    match = rng.choice(fields)
    new = rng.choice(fields)[0] if rng.random() < 0.3 else rng.choice(TOKENS)
    return content[: match.start()] + new + content[match.end() :]


_OF_CONTENT = (
    _flip, _overwrite, _insert, _cut, _truncate, _repeat, _field, _field, _field, _field,
    _lines(_drop), _lines(_twice), _lines(_swap), _lines(_join),
)  # fmt: skip


# --- files ------------------------------------------------------------------------------------------------


def _remove(files: Files, rng: random.Random) -> None:
    del files[rng.choice(sorted(files))]


def _empty(files: Files, rng: random.Random) -> None:
    files[rng.choice(sorted(files))] = b""


def _exchange(files: Files, rng: random.Random) -> None:
    first, second = (rng.choice(sorted(files)) for _ in range(2))
    files[first], files[second] = files[second], files[first]


def _rename(files: Files, rng: random.Random) -> None:
    name = rng.choice(sorted(files))
    stem, dot, suffix = name.rpartition(".")
    new = rng.choice(("xx", "en", "deu", "zh-TW", "test", "~", "\x1b", "a" * 200, "'"))
    files[f"{new}{dot}{suffix}" if rng.random() < 0.5 else f"{stem}{dot}{new}"] = files.pop(name)


def _folder(files: Files, rng: random.Random) -> None:
    name = rng.choice(sorted(files))
    files[f"{name}/{name.rpartition('/')[2]}"] = files.pop(name)


_OF_FILES = (_remove, _empty, _exchange, _rename, _folder)

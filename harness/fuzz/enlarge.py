"""Make files large and repetitive, as quadratic running time only shows there."""

import random
import re

from .mutate import Files, mutated

_TEXTS = (
    "a", " ", "\t", "\n", "\r", "\0", "[", "]", "[a : b] ", "[a:", " : ", "{", '{"a":', '"', '\\"', "\\", ",", ";", "|",
    "=", "9", "0.", "-9", "e9", "x y ", "en-", "B-a ", "a\tO\n", "# a = b\n", "<mask>", "a.", "a.b.", "/", "'", "the ",
    "#", "::", "_a", "\\u0301\\u0327", "\ufeff", "\u3000", "\u0301", "\u0327\u0301", "\u0301\u0327", "\u0f73",
    "e\u0301", "\u8d64", "\u1100\u1161", "\U0001d160", "\u0661",
)  # fmt: skip
UNITS = tuple(text.encode() for text in _TEXTS)
"""Texts to repeat."""
_FIELD = re.compile(rb"[^\s,\"=:|\[\]]+")


def enlarged(files: Files, rng: random.Random) -> Files:
    """Return the files, one of them with a repeated part; half of the time, mutate them first."""
    files = mutated(files, rng) if rng.random() < 0.5 else files
    if not files:
        return files
    name = rng.choice(sorted(files))
    return {**files, name: enlarged_content(files[name], rng)}


def enlarged_content(content: bytes, rng: random.Random) -> bytes:
    """Return the content with up to 200 kB of repetition, inserted or in place of a field or of all equal fields."""
    fields = _FIELD.findall(content)
    kind = rng.random()
    if kind < 0.2:
        return _times(content, rng)
    if kind < 0.35:
        lines = content.split(b"\n")
        place = rng.randrange(len(lines))
        lines[place] = _times(lines[place] + b"\n", rng)
        return b"\n".join(lines)
    pumped = _pumped(rng)
    if kind < 0.5 or not fields:
        place = rng.randrange(len(content) + 1)
        return content[:place] + pumped + content[place:]
    return content.replace(rng.choice(fields), pumped, rng.choice((1, 1, 2, -1)))


def _pumped(rng: random.Random) -> bytes:
    unit = rng.choice(UNITS) if rng.random() < 0.8 else rng.choice(UNITS) + rng.choice(UNITS)
    before, after = (rng.choice((b"", b"", b"a", b"e", b"[x : a", b" ", b"b]")) for _ in range(2))
    return before + _times(unit, rng) + after


def _times(unit: bytes, rng: random.Random) -> bytes:
    size = int(10 ** rng.uniform(3, 5.3))
    return unit * (size // max(1, len(unit)) + 1)

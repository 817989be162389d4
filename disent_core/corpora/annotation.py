"""Convert slot annotation between brackets in a text, character spans, and BIO tags over tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from disent_core.errors import quoted
from disent_core.text import token_spans, tokenize

OUTSIDE = "O"

_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)|([\[\]])")


class Slot(NamedTuple):
    """A typed span, end exclusive: of characters of a text, or of tokens of an utterance."""

    type: str
    start: int
    end: int


def bracketed_slots(annotated: str, text: str) -> list[Slot]:
    """Return the character spans of `text` that `annotated` puts in brackets `[type : value]`.

    Without its brackets `annotated` must equal `text`, except for white space: scripts without spaces are
    annotated with spaces around the brackets.
    """
    pieces = _pieces(annotated)
    plain = without_brackets(annotated)
    if "".join(plain.split()) != "".join(text.split()):
        raise ValueError(f"the annotation without its brackets, {quoted(plain)}, differs from the text {quoted(text)}")
    positions = [position for position, character in enumerate(text) if not character.isspace()]
    slots, end = [], 0
    for slot_type, piece in pieces:
        start, end = end, end + len("".join(piece.split()))
        if slot_type is not None:
            slots.append(Slot(slot_type, positions[start], positions[end - 1] + 1))
    return slots


def without_brackets(annotated: str) -> str:
    """Return the text without its annotation: `at [time : nine]` -> `at nine`."""
    return "".join(piece for _, piece in _pieces(annotated))


def _pieces(annotated: str) -> list[tuple[str | None, str]]:
    """Return the text inside (with its slot type) and outside (with None) of brackets, in order."""
    pieces: list[tuple[str | None, str]] = []
    for match in _PIECE.finditer(annotated):
        inside, outside, stray = match.groups()
        if stray:
            raise ValueError(f"bracket {stray!r} at character {match.start()} of {quoted(annotated)} has no partner")
        if outside:
            pieces.append((None, outside))
            continue
        slot_type, value = (part.strip() for part in (*inside.split(":", 1), "")[:2])
        if not value or len(slot_type.split()) != 1:
            raise ValueError(f"{quoted(match[0])} in {quoted(annotated)} is not of the form [type : value]")
        pieces.append((slot_type, value))
    return pieces


def tag_tokens(text: str, language: str, slots: Sequence[Slot]) -> tuple[list[str], list[str]]:
    """Return the tokens of a text and their BIO tags; a word that contains the edge of a slot is cut there."""
    slots = sorted(slots, key=lambda slot: slot.start)
    starts = [slot.start for slot in slots]
    edges = [edge for slot in slots for edge in (slot.start, slot.end)]
    tokens, tags = [], []
    for start, end in token_spans(text, tokenize(text, language)):
        inner = edges[bisect_right(edges, start) : bisect_left(edges, end)]
        for cut, following in pairwise(dict.fromkeys((start, *inner, end))):
            tokens.append(text[cut:following])
            index = bisect_right(starts, cut) - 1  # index of the last slot that begins there or before
            if index < 0 or cut >= slots[index].end:
                tags.append(OUTSIDE)
            else:
                tags.append(f"{'B' if cut == slots[index].start else 'I'}-{slots[index].type}")
    return tokens, tags


def tagged_slots(tags: Sequence[str]) -> list[Slot]:
    """Return the token spans of BIO tags; an I- tag that continues no slot begins one."""
    slots: list[Slot] = []
    for position, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        prefix, _, slot_type = tag.partition("-")
        last = slots[-1] if slots else None
        if prefix == "I" and last and last.end == position and last.type == slot_type:
            slots[-1] = last._replace(end=position + 1)
        else:
            slots.append(Slot(slot_type, position, position + 1))
    return slots


_BEGINS, _ENDS, _PREFIXES = frozenset("BSU"), frozenset("ELSU"), frozenset("BIMELSU")


def bio_tags(tags: Sequence[str]) -> list[str]:
    """Convert tags in BIO, IOB1, IOBES, BMES or BILOU to BIO; a tag that continues no slot of its type begins one."""
    converted, open_type = [], ""
    for tag in tags:
        prefix, _, slot_type = tag.partition("-")
        if tag == OUTSIDE:
            converted.append(OUTSIDE)
        elif prefix not in _PREFIXES or not slot_type:
            raise ValueError(f"{quoted(tag)} is not a tag such as O, B-date or I-date")
        else:
            converted.append(f"{'B' if prefix in _BEGINS or slot_type != open_type else 'I'}-{slot_type}")
        open_type = "" if prefix in _ENDS else slot_type
    return converted

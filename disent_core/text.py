"""Normalisation and tokenisation by script, and the address of a text."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

UNSPACED_LANGUAGES = frozenset({"ja", "zh", "th", "lo", "km", "my", "bo", "dz", "yue", "wuu"})
"""Languages written without spaces between words: their tokens are characters."""

MASK = "<mask>"
"""Stands for one masked token in a stored text; an encoder puts its own mask token there."""

# Private-use characters cannot occur in a corpus by accident; readers reject them.
SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE = "\ue000", "\ue001"
"""Around words of which every subword is to be masked: only the encoder knows how many there are."""
HIDDEN_OPEN, HIDDEN_CLOSE = "\ue002", "\ue003"
"""Around words that stay in the text but that no token may attend to."""
MARKERS = frozenset({SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE, HIDDEN_OPEN, HIDDEN_CLOSE})


def normalise(text: str) -> str:
    """NFC: the form in which every text is stored, compared and hashed."""
    return unicodedata.normalize("NFC", text)


def parsed_json(text: str) -> Any:
    """What the JSON says.

    Raises:
        ValueError: if it is malformed, nested deeper than can be read, or has half of a character (`"\\ud800"`).
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    return value


def printable(text: str) -> str:
    """The text as a terminal may show it: control characters, and what turns the direction of writing, escaped.

    Line ends and tabs stay.
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def text_key(text: str) -> str:
    """Address of a text: the first 16 bytes of SHA-256 of its NFC form, as 32 hex digits."""
    return hashlib.sha256(normalise(text).encode()).digest()[:16].hex()


def text_keys(texts: Iterable[str]) -> list[str]:
    """`text_key` of each text, in order."""
    return [text_key(text) for text in texts]


def language_part(locale: str) -> str:
    """`en-US` -> `en`."""
    return locale.split("-", 1)[0].lower()


def is_unspaced(language: str) -> bool:
    """Whether tokens of this language (or locale) are characters rather than words."""
    return language_part(language) in UNSPACED_LANGUAGES


def separator_of(language: str) -> str:
    """What stands between two tokens of this language (or locale)."""
    return "" if is_unspaced(language) else " "


def tokenize(text: str, language: str) -> list[str]:
    """Words between white space, or every character that is not white space in an unspaced script."""
    if is_unspaced(language):
        return [character for character in text if not character.isspace()]
    return text.split()


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end (exclusive, in characters) of each token in the text that it was cut from.

    Raises:
        ValueError: if the tokens do not cover the text in order, white space apart.
    """
    spans, position = [], 0
    for token in tokens:
        start = text.find(token, position)
        if start < 0 or text[position:start].strip():
            raise ValueError(f"token {token!r} is not next in {text!r} at character {position}")
        position = start + len(token)
        spans.append((start, position))
    if text[position:].strip():
        raise ValueError(f"{text[position:]!r} of {text!r} belongs to no token")
    return spans


def spliced(text: str, replacements: Sequence[tuple[tuple[int, int], str]]) -> str:
    """The text with other strings at spans that are in order and do not overlap."""
    pieces, position = [], 0
    for (start, end), new in replacements:
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])

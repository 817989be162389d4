"""Normalise, tokenise and hash texts."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from disent_core.errors import quoted
from disent_core.normal_form import normalise

UNSPACED_LANGUAGES = frozenset({"ja", "zh", "th", "lo", "km", "my", "bo", "dz", "yue", "wuu"})
"""Languages written without spaces between words: their tokens are characters."""

MASK = "<mask>"
"""Stands for a masked token in a stored text; the encoder replaces it by the mask token of its vocabulary."""

# Private-use characters cannot occur in a corpus by accident; readers reject them.
SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE = "\ue000", "\ue001"
"""Enclose words whose every subword the encoder masks; only the encoder knows how many there are."""
HIDDEN_OPEN, HIDDEN_CLOSE = "\ue002", "\ue003"
"""Enclose words that stay in the text but that no token may attend to."""
MARKERS = frozenset({SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE, HIDDEN_OPEN, HIDDEN_CLOSE})

MOST_CHARACTERS = 10_000
"""Most characters of a corpus text; a longer one is no utterance, and every character takes memory."""


def parsed_json(text: str) -> Any:
    """Parse JSON; ValueError if it is malformed, nested too deeply, or has half of a surrogate pair."""
    try:
        value = json.loads(text.rstrip())
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:  # a reader of lines names the line itself
        place = f"line {error.lineno}, column {error.colno}" if "\n" in text.rstrip() else f"column {error.colno}"
        raise ValueError(f"not valid JSON: {error.msg} at {place}") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    return value


def settings_within(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of JSON at any depth."""
    listed = value if isinstance(value, list) else ()
    items = value.items() if isinstance(value, dict) else (("", item) for item in listed)
    for key, inner in items:
        yield key, inner
        if isinstance(inner, dict | list):
            yield from settings_within(inner)


def iterable_texts(texts: Any) -> Iterable[Any]:
    """Return texts as they are; raise ValueError if no texts can be taken from them."""
    is_scalar = getattr(texts, "ndim", 1) == 0  # an array of no dimensions
    is_named = isinstance(texts, Mapping) or hasattr(texts, "columns")  # which would give its keys or columns' names
    if isinstance(texts, bytes) or is_scalar or is_named or not isinstance(texts, Iterable):
        remedy = "; pass the texts in it, such as texts['text']" if is_named else ""
        raise ValueError(f"texts must be a str or an iterable of them, got {_kind_of(texts)}{remedy}")
    return texts


def listed_texts(texts: Any) -> list[str]:
    """Return texts as a list of str, NumPy's strings as Python's; raise ValueError for anything else."""
    if isinstance(texts, str):
        raise ValueError("texts must be a list of texts, not one text")
    listed = list(iterable_texts(texts))
    for number, text in enumerate(listed, 1):
        require_text(text, number)
        require_unicode(text, number)
    return [str(text) for text in listed]


def require_batch_size(batch_size: object) -> None:
    """Raise ValueError unless the number of texts to encode at once is a whole number of at least 1."""
    if not is_whole(batch_size, least=1):
        raise ValueError(f"batch_size must be a whole number, at least 1, got {quoted(batch_size)}")


def is_whole(value: Any, *, least: int) -> bool:
    """Return whether a value is a whole number, Python's or NumPy's, of at least `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def require_text(text: object, number: int) -> None:
    """Raise ValueError, with the number of the text, if it is not a str."""
    if not isinstance(text, str):
        raise ValueError(f"texts must be str, but text {number} is {_kind_of(text)}; leave it out, or convert it")


def require_unicode(text: str, number: int) -> None:
    """Raise ValueError, with the number of the text, if it has half of a surrogate pair, which no encoder reads."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"text {number} has half of a surrogate pair at character {error.start + 1}"
        raise ValueError(f"{what}; read it again as UTF-8, or drop that character") from error


def _kind_of(value: object) -> str:
    is_nan = isinstance(value, float) and math.isnan(value)
    return "None" if value is None else "NaN, a missing value" if is_nan else type(value).__name__


def printable(text: str) -> str:
    """Escape control characters and characters that change the direction of writing, for output on a terminal.

    Line ends and tabs stay.
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def text_key(text: str) -> str:
    """Return the key of a text: the first 16 bytes of SHA-256 of its NFC form, as 32 hex digits."""
    return hashlib.sha256(normalise(text).encode()).digest()[:16].hex()


def text_keys(texts: Iterable[str]) -> list[str]:
    """Return `text_key` of each text, in order."""
    return [text_key(text) for text in texts]


def language_part(locale: str) -> str:
    return locale.split("-", 1)[0].lower()


def is_unspaced(language: str) -> bool:
    """Return whether tokens of this language (or locale) are characters rather than words."""
    return language_part(language) in UNSPACED_LANGUAGES


def separator_of(language: str) -> str:
    """Return the separator between two tokens of this language (or locale)."""
    return "" if is_unspaced(language) else " "


def tokenize(text: str, language: str) -> list[str]:
    """Split a text at white space or, in an unspaced script, into all characters that are not white space."""
    if is_unspaced(language):
        return [character for character in text if not character.isspace()]
    return text.split()


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Return start and end (exclusive, in characters) of each token in its text."""
    spans, position = [], 0
    for token in tokens:
        start = text.find(token, position)
        if start < 0 or text[position:start].strip():
            raise ValueError(f"token {quoted(token)} is not next in {quoted(text)} at character {position}")
        position = start + len(token)
        spans.append((start, position))
    if text[position:].strip():
        raise ValueError(f"{quoted(text[position:])} of {quoted(text)} belongs to no token")
    return spans


def spliced(text: str, replacements: Sequence[tuple[tuple[int, int], str]]) -> str:
    """Replace spans of the text, which are in order and do not overlap, by other strings."""
    pieces, position = [], 0
    for (start, end), new in replacements:
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])

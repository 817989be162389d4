"""Bring a text to its normal form. Exported folders carry a copy of this file, so it imports the stdlib only."""

import unicodedata
from itertools import groupby


def normalise(text: str) -> str:
    """Return the NFC form, in which every text is stored, compared and hashed."""
    if len(text) > _LONG and not unicodedata.is_normalized("NFC", text):
        text = _decomposed(text)
    return unicodedata.normalize("NFC", text)


_LONG = 1_000
"""Characters above which marks are sorted first: `unicodedata` takes quadratic time in the marks in a row."""


def _decomposed(text: str) -> str:
    """Return the NFD form, with the marks of a character in order."""
    characters = (part for character in text for part in unicodedata.normalize("NFD", character))
    runs = groupby(characters, key=lambda character: unicodedata.combining(character) > 0)
    return "".join(
        character
        for is_marks, run in runs
        for character in (sorted(run, key=unicodedata.combining) if is_marks else run)
    )

"""Code-switched sentences: some words of a sentence replaced by their translations from a word list.

Which words and which translations is drawn from a hash of seed, pair and position: a sentence that is edited
changes its own row and no other.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl
import pyarrow as pa

from disent_core.corpora.lines import REMEDY, read_lines
from disent_core.errors import CorpusError, located
from disent_core.settings import Settings
from disent_core.storage.tables import rows_table
from disent_core.text import is_unspaced, normalise

CODE_VERSION = "1"
"""Changes when equal inputs would give other rows."""

Entries = Sequence[tuple[str, str]]
"""English words with a translation of each, lower case, in the order of the list: common words come first."""

_READ = ["corpus", "pair", "pair_id", "split", "source", "target"]


@dataclass(frozen=True, kw_only=True)
class CodeSwitchingConfig(Settings):
    """How words are replaced, for the code-switched retrieval of ORACLE.

    Attributes:
        dictionaries: folder with a word list `<language>.txt` of lines `english foreign`; none: no such sentences.
        probability: with which a word that the list has is replaced.
        min_replacements: words that are replaced at least; a sentence with fewer known words is left out.
        max_pairs: sentences of a language pair and split, the first ones.
        seed: of the draws; each sentence has its own.
        replace: `foreign`: words of the foreign sentence become English and the original is its English
            translation; `english`: words of the English sentence become foreign and it is the original itself.
        candidates: which of several translations is taken.
    """

    dictionaries: str | None = None
    probability: float = 0.3
    min_replacements: int = 1
    max_pairs: int = 1_000
    seed: int = 0
    replace: Literal["foreign", "english"] = "foreign"
    candidates: Literal["first", "random"] = "first"

    def __post_init__(self) -> None:
        self.check_range("probability", at_least=0, at_most=1)
        self.check_positive("min_replacements", "max_pairs")


def read_dictionary(path: Path) -> list[tuple[str, str]]:
    """Entries of a word list: lines `english foreign` by space or tab, as MUSE publishes (Lample et al. 2018,
    https://arxiv.org/abs/1710.04087). Words that are their own translation are left out.

    Raises:
        CorpusError: if the file is missing, empty or not UTF-8, a line is not two words, or no entry is left.
    """
    entries: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        words = normalise(line).lower().split()
        if len(words) != 2:
            found = f"expected an English word and its translation, found {line!r}"
            raise CorpusError(located(path, number, found, REMEDY))
        if words[0] != words[1]:
            entries.append((words[0], words[1]))
    if not entries:
        found = "every word of this list is its own translation"
        raise CorpusError(located(path, None, found, "Is this the list of another language?"))
    return entries


def code_switched(pairs: pa.Table, dictionary: Entries, config: CodeSwitchingConfig) -> pa.Table:
    """Rows in the schema `code_switched_pairs`, in the order of the pairs.

    A word is what stands between white space, without the punctuation around it; in scripts without spaces it is
    the longest entry of the list, from left to right, and other characters are words of one character. Words are
    looked up in lower case; the translation takes over upper case and the punctuation around.

    Args:
        pairs: rows in the schema `sentence_pairs`, English on one side.
        dictionary: what `read_dictionary` gives for the other language.
        config: which side is switched, and how.

    Raises:
        ValueError: if a pair does not have English on just one side.
    """
    translations = _translations(dictionary, config.replace)
    frame = pl.DataFrame(pairs.select(_READ)).with_row_index("place")
    rows: list[tuple[int, dict[str, Any]]] = []
    for part in frame.partition_by("pair", "split"):
        switched = ((pair["place"], _row(pair, translations, config)) for pair in part.iter_rows(named=True))
        rows += islice(((place, row) for place, row in switched if row), config.max_pairs)
    return rows_table((row for _, row in sorted(rows, key=itemgetter(0))), "code_switched_pairs")


def _row(
    pair: Mapping[str, Any], translations: Mapping[str, Sequence[str]], config: CodeSwitchingConfig
) -> dict[str, Any] | None:
    """None where the sentence has too few known words."""
    foreign, english_side = _sides(pair["pair"])
    foreign_side = "target" if english_side == "source" else "source"
    side, language = (english_side, "en") if config.replace == "english" else (foreign_side, foreign)
    pieces = _pieces(pair[side], language, translations)
    chosen = _chosen([place for place, piece in enumerate(pieces) if piece.key in translations], pair, config)
    if not chosen:
        return None
    replaced: list[dict[str, str]] = []
    for place in chosen:
        new = _cased(_candidate(translations[pieces[place].key], place, pair, config), pieces[place].word)
        replaced.append({"old": pieces[place].word, "new": new})
        pieces[place] = pieces[place]._replace(word=new)
    return {
        **{name: pair[name] for name in ("corpus", "pair", "pair_id", "split")},
        "switched_language": language,
        "switched": _text(pieces, set(chosen), is_spaced=not is_unspaced(language)),
        "original_language": "en",
        "original": pair[english_side],
        "words": sum(bool(piece.key) for piece in pieces),
        "replaced_words": replaced,
    }


def _sides(pair: str) -> tuple[str, Literal["source", "target"]]:
    """The other language, and the side that is English."""
    if pair.startswith("en-") != pair.endswith("-en"):
        return (pair.removeprefix("en-"), "source") if pair.startswith("en-") else (pair.removesuffix("-en"), "target")
    raise ValueError(f"pair is {pair!r}; just one side must be English to be code-switched")


def _translations(dictionary: Entries, replace: Literal["foreign", "english"]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for english, foreign in dictionary:
        word, translation = (english, foreign) if replace == "english" else (foreign, english)
        found.setdefault(word, []).append(translation)
    return found


# --- words ------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A word with what stands around it: white space before, punctuation on both sides; key as it is looked up."""

    space: str
    before: str
    word: str
    after: str

    @property
    def key(self) -> str:
        return self.word.lower()


def _pieces(text: str, language: str, translations: Mapping[str, object]) -> list[_Piece]:
    """The whole text, piece by piece."""
    if is_unspaced(language):
        return list(_longest_entries(text, translations))
    return [_piece(*match.groups()) for match in re.finditer(r"(\s*)(\S+)", text)]


def _piece(space: str, token: str) -> _Piece:
    inner = [place for place, character in enumerate(token) if unicodedata.category(character)[0] not in "PS"]
    if not inner:
        return _Piece(space, token, "", "")
    start, end = inner[0], inner[-1] + 1
    return _Piece(space, token[:start], token[start:end], token[end:])


def _longest_entries(text: str, translations: Mapping[str, object]) -> Iterator[_Piece]:
    longest = max(map(len, translations), default=1)
    start = 0
    while start < len(text):
        lengths = range(min(longest, len(text) - start), 0, -1)
        length = next((length for length in lengths if text[start : start + length].lower() in translations), 1)
        token = text[start : start + length]
        is_word = length > 1 or unicodedata.category(token)[0] not in "PSZ"
        yield _Piece("", "", token, "") if is_word else _Piece("", token, "", "")
        start += length


def _text(pieces: Sequence[_Piece], chosen: set[int], *, is_spaced: bool) -> str:
    """The pieces put together; in scripts without spaces a new word has a space between it and other words."""
    parts: list[str] = []
    for place, piece in enumerate(pieces):
        follows_word = place > 0 and bool(pieces[place - 1].word)
        if not is_spaced and piece.word and follows_word and {place, place - 1} & chosen:
            parts.append(" ")
        parts.extend(piece)
    return "".join(parts)


# --- draws ------------------------------------------------------------------------------------------------


def _chosen(known: Sequence[int], pair: Mapping[str, Any], config: CodeSwitchingConfig) -> list[int]:
    """Places of the words that are replaced: those whose draw is below the probability, and at least the lowest."""
    if len(known) < config.min_replacements:
        return []
    draws = {place: _draw(config.seed, pair, "word", place) for place in known}
    below = sum(draw < config.probability for draw in draws.values())
    return sorted(sorted(known, key=draws.__getitem__)[: max(below, config.min_replacements)])


def _candidate(candidates: Sequence[str], place: int, pair: Mapping[str, Any], config: CodeSwitchingConfig) -> str:
    if config.candidates == "first":
        return candidates[0]
    return candidates[int(_draw(config.seed, pair, "candidate", place) * len(candidates))]


def _draw(seed: int, pair: Mapping[str, Any], what: str, place: int) -> float:
    """Uniform on [0, 1)."""
    key = f"{seed}\n{pair['corpus']}\n{pair['pair']}\n{pair['pair_id']}\n{what}\n{place}"
    return (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 11) / (1 << 53)


def _cased(translation: str, word: str) -> str:
    if len(word) > 1 and word.isupper():
        return translation.upper()
    return translation[:1].upper() + translation[1:] if word[:1].isupper() else translation

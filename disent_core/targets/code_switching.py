"""Make code-switched sentences: replace some words of a sentence by their translations from a word list.

A hash of seed, pair and position selects the words and translations, so an edited sentence changes its own row only.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from disent_core.corpora.lines import read_lines
from disent_core.corpora.row_errors import RowError, RowErrors
from disent_core.errors import CorpusError, located, quoted
from disent_core.settings import Positive, Seed, Settings, Share
from disent_core.storage.tables import rows_table
from disent_core.text import is_unspaced, normalise

CODE_VERSION = "1"  # changed whenever equal inputs would give other rows

Entries = Sequence[tuple[str, str]]
"""English words, each with a translation, in lower case and in the order of the list: common words come first."""

_LONGEST_LINE = 200  # characters: in a script without spaces, words are looked up at every length up to the longest
_READ = ["corpus", "pair", "pair_id", "split", "source", "target"]


@dataclass(frozen=True, kw_only=True)
class CodeSwitchingConfig(Settings):
    """How words are replaced, for the code-switched retrieval of ORACLE.

    Attributes:
        dictionaries: folder of word lists `<language>.txt` with lines `english foreign`; if omitted, there are no such
            sentences.
        probability: probability that a word in the list is replaced.
        min_replacements: minimum number of words to replace; sentences with fewer known words are left out.
        max_pairs: maximum number of sentences per language pair and split; the first ones are used.
        seed: random seed of the draws, which are separate for each sentence.
        replace: `foreign`: words of the foreign sentence become English, and the original is its English translation;
            `english`: words of the English sentence become foreign, and the original is that sentence.
        candidates: which of several translations to use.
    """

    dictionaries: str | None = None
    probability: Share = 0.3
    min_replacements: Positive = 1
    max_pairs: Positive = 1_000
    seed: Seed = 0
    replace: Literal["foreign", "english"] = "foreign"
    candidates: Literal["first", "random"] = "first"


def read_dictionary(path: Path) -> list[tuple[str, str]]:
    """Read a word list of lines `english foreign`, separated by space or tab, as MUSE publishes (Lample et al. 2018,
    https://arxiv.org/abs/1710.04087). Words that equal their translation are skipped, and other lines are left out.
    """
    row_errors = RowErrors()
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        words = normalise(line).lower().split() if len(line) <= _LONGEST_LINE else [line]
        if len(words) == 2:
            pairs.append((words[0], words[1]))
        elif words:
            problem = f"expected an English word and its translation, found {quoted(line)}"
            row_errors.leave_out(path, number, RowError(problem, "a line that is not two words is left out"))
    row_errors.check(len(pairs), path)
    row_errors.log()
    entries = [(english, foreign) for english, foreign in pairs if english != foreign]
    if not entries:
        problem = "every word of this list is its own translation"
        raise CorpusError(located(path, None, problem, "Check that it is for the right language"))
    return entries


def code_switched(pairs: pa.Table, dictionary: Entries, config: CodeSwitchingConfig) -> pa.Table:
    """Code-switch pairs into rows of the schema `code_switched_pairs`, in the order of the pairs.

    Words are separated by white space and stripped of punctuation. In scripts without spaces a word is the longest
    match in the list, from left to right, and any other character is a word. Words are looked up in lower case; the
    translation keeps upper case and the surrounding punctuation.
    """
    import polars as pl

    translations: dict[str, list[str]] = {}
    for english, foreign in dictionary:
        word, translation = (english, foreign) if config.replace == "english" else (foreign, english)
        translations.setdefault(word, []).append(translation)
    frame = pl.DataFrame(pairs.select(_READ)).with_row_index("index")
    rows: dict[int, dict[str, Any]] = {}
    for part in frame.partition_by("pair", "split"):
        switched = ((pair["index"], _row(pair, translations, config)) for pair in part.iter_rows(named=True))
        rows |= islice(((index, row) for index, row in switched if row), config.max_pairs)
    return rows_table((rows[index] for index in sorted(rows)), "code_switched_pairs")


def _row(
    pair: Mapping[str, Any], translations: Mapping[str, Sequence[str]], config: CodeSwitchingConfig
) -> dict[str, Any] | None:
    """Code-switch one pair; None if the sentence has too few translatable words."""
    foreign, english_side = _sides(pair["pair"])
    foreign_side = "target" if english_side == "source" else "source"
    side, language = (english_side, "en") if config.replace == "english" else (foreign_side, foreign)
    pieces = _pieces(pair[side], language, translations)
    translatable = [position for position, piece in enumerate(pieces) if piece.key in translations]
    replaced_positions = _positions_to_replace(translatable, pair, config)
    if not replaced_positions:
        return None
    replacements: list[dict[str, str]] = []
    for position in replaced_positions:
        old, candidates = pieces[position].word, translations[pieces[position].key]
        is_drawn = config.candidates == "random"
        drawn = int(_draw(config.seed, pair, "candidate", position) * len(candidates)) if is_drawn else 0
        new = candidates[drawn]
        if len(old) > 1 and old.isupper():
            new = new.upper()
        elif old[:1].isupper():
            new = new[:1].upper() + new[1:]
        replacements.append({"old": old, "new": new})
        pieces[position] = pieces[position]._replace(word=new)
    return {
        **{name: pair[name] for name in ("corpus", "pair", "pair_id", "split")},
        "switched_language": language,
        "switched": _text(pieces, set(replaced_positions), is_spaced=not is_unspaced(language)),
        "original_language": "en",
        "original": pair[english_side],
        "words": sum(bool(piece.key) for piece in pieces),
        "replaced_words": replacements,
    }


def _sides(pair: str) -> tuple[str, Literal["source", "target"]]:
    """Return the other language and the English side."""
    if pair.startswith("en-") != pair.endswith("-en"):
        return (pair.removeprefix("en-"), "source") if pair.startswith("en-") else (pair.removesuffix("-en"), "target")
    raise ValueError(f"pair is {pair!r}; exactly one side must be English to be code-switched")


class _Piece(NamedTuple):
    """A word with the white space before it and the punctuation on both sides; `key` is its form in the list."""

    space: str
    before: str
    word: str
    after: str

    @property
    def key(self) -> str:
        return self.word.lower()


def _pieces(text: str, language: str, translations: Mapping[str, object]) -> list[_Piece]:
    """Split the whole text into pieces."""
    if is_unspaced(language):
        return list(_longest_entries(text, translations))
    return [_piece(*match.groups()) for match in re.finditer(r"(\s*)(\S+)", text.rstrip())]


def _piece(space: str, token: str) -> _Piece:
    word_indices = [index for index, character in enumerate(token) if unicodedata.category(character)[0] not in "PS"]
    if not word_indices:
        return _Piece(space, token, "", "")
    start, end = word_indices[0], word_indices[-1] + 1
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


def _text(pieces: Sequence[_Piece], replaced_positions: set[int], *, is_spaced: bool) -> str:
    """Join the pieces; in scripts without spaces, a new word is separated from adjacent words by a space."""
    parts: list[str] = []
    for position, piece in enumerate(pieces):
        follows_word = position > 0 and bool(pieces[position - 1].word)
        if not is_spaced and piece.word and follows_word and {position, position - 1} & replaced_positions:
            parts.append(" ")
        parts.extend(piece)
    return "".join(parts)


def _positions_to_replace(
    translatable: Sequence[int], pair: Mapping[str, Any], config: CodeSwitchingConfig
) -> list[int]:
    """Select the words to replace: those with a draw below the probability, and at least the minimum number."""
    if len(translatable) < config.min_replacements:
        return []
    draws = {position: _draw(config.seed, pair, "word", position) for position in translatable}
    below = sum(draw < config.probability for draw in draws.values())
    return sorted(sorted(translatable, key=draws.__getitem__)[: max(below, config.min_replacements)])


def _draw(seed: int, pair: Mapping[str, Any], purpose: str, position: int) -> float:
    """Draw from the uniform distribution on [0, 1) by a hash."""
    key = f"{seed}\n{pair['corpus']}\n{pair['pair']}\n{pair['pair_id']}\n{purpose}\n{position}"
    return (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 11) / (1 << 53)

"""Bitext in Moses format: two files, line i of the one translates line i of the other.

A file is named `[PREFIX.]en-de.en`, as OPUS does, and its partner `[PREFIX.]en-de.de`; or `PREFIX.en` and
`PREFIX.de`. Koehn et al. 2007, Moses: Open Source Toolkit for Statistical Machine Translation,
https://aclanthology.org/P07-2045.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import TWO_LETTER_CODES, is_language_code, language_code
from disent_core.corpora.lines import files_hash, parallel_lines, sentence_pairs_table
from disent_core.corpora.paths import absent, check_folder
from disent_core.errors import CorpusError, located

KIND: Kind = "bitext"
TRAINS = True
SHARES: Shares | None = (0.9, 0.05, 0.05)


class Sides(NamedTuple):
    """The two files of a pair."""

    source: Path
    target: Path


def pairs(path: Path) -> list[str]:
    """Pairs that the folder or one below it has, sorted: `en-de` for `en-de.en`. Where the names tell no
    direction (`corpus.en`, `corpus.de`), English is the source, else what comes first in the alphabet.

    Raises:
        CorpusError: if the folder does not exist, has no pair, or has two of one name.
    """
    return sorted(pair_files(path, _sides_of_stem))


def read_pairs(path: Path, pair: str, *, corpus: str) -> pa.Table:
    """Rows of one pair in the schema `sentence_pairs`, in the order of the files, all in split `test`.

    A row's `pair_id` is its line's number. Lines that are blank in both files are left out.

    Raises:
        AlignmentError: if the files are of unequal length, or a line is blank in one of them only.
        CorpusError: if the pair is absent, or a file is missing, empty, not UTF-8, or has a text that can't be
            stored.
    """
    return read_sides(sides_of(path, pair, _sides_of_stem), pair, corpus=corpus)


def content_hash(path: Path, pair: str) -> str:
    """SHA-256, 64 hex digits, of the two files of this pair.

    Raises:
        CorpusError: as `read_pairs`, short of malformed lines.
    """
    return files_hash(sides_of(path, pair, _sides_of_stem))


# --- two aligned files, whatever their names ----------------------------------------------------------------

StemReader = Callable[[str, Mapping[str, Path]], Mapping[tuple[str, str], Sides]]
"""What pairs the files of one stem are, by their suffixes."""


def pair_files(path: Path, sides_of_stem: StemReader) -> dict[str, Sides]:
    """The two files of every pair in the folder or below it, by the pair's name in codes of `languages`.

    Raises:
        CorpusError: if the folder does not exist, has no pair, or has two of one name.
    """
    check_folder(path)
    stems: dict[tuple[Path, str], dict[str, Path]] = defaultdict(dict)
    for file in sorted(path.rglob("*.*")):
        stem, _, suffix = file.name.rpartition(".")
        if stem and is_language_code(suffix) and file.is_file():
            stems[file.parent, stem][suffix] = file
    found: dict[str, Sides] = {}
    for (_, stem), files in stems.items():
        for languages, sides in sides_of_stem(stem, files).items():
            name = "-".join(map(language_code, languages))
            if name in found:
                twice = f"{found[name].source.name} and {sides.source.name} are both the pair {name}"
                raise CorpusError(located(sides.source, None, twice, "Put each into a folder of its own"))
            found[name] = sides
    if not found:
        remedy = "Files are named like en-de.en and en-de.de; is this the right path?"
        raise CorpusError(located(path, None, "it has no two aligned files of such names", remedy))
    return found


def sides_of(path: Path, pair: str, sides_of_stem: StemReader) -> Sides:
    """The two files of one pair; of `de-en` also where the files are named `en-de`.

    Raises:
        CorpusError: if the pair is absent.
    """
    found = pair_files(path, sides_of_stem)
    if pair in found:
        return found[pair]
    for source, target in found.values():
        if pair == "-".join(language_code(side.suffix[1:]) for side in (target, source)):
            return Sides(target, source)
    raise absent(path, f"the pair {pair!r}", found)


def read_sides(sides: Sides, pair: str, *, corpus: str) -> pa.Table:
    """Rows of two aligned files, all in split `test`, as `read_pairs`."""
    numbers, sources, targets = parallel_lines(*sides)
    return sentence_pairs_table(
        corpus,
        pair,
        pair_ids=list(map(str, numbers)),
        splits=["test"] * len(numbers),
        sources=sources,
        targets=targets,
    )


def named_sides(name: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    """The pair that `name` is, `en-de` or `zh-TW-en`, if it is one: one of its languages must be a suffix.

    A partner that is missing is told by whoever reads it.
    """
    for suffix, file in files.items():
        for source, target in ((suffix, name.removeprefix(f"{suffix}-")), (name.removesuffix(f"-{suffix}"), suffix)):
            if f"{source}-{target}" == name and is_language_code(source) and is_language_code(target):
                beside = [files.get(language, file.with_suffix(f".{language}")) for language in (source, target)]
                return {(source, target): Sides(*beside)}
    return {}


def _sides_of_stem(stem: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    if named := named_sides(stem.rpartition(".")[2], files):
        return named
    known = sorted((suffix for suffix in files if suffix in TWO_LETTER_CODES), key=lambda code: (code != "en", code))
    return {(one, other): Sides(files[one], files[other]) for one, other in combinations(known, 2)}

"""Read bitext in Moses format: two files, of which line i of one translates line i of the other.

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
from disent_core.corpora.faults import Faults
from disent_core.corpora.languages import TWO_LETTER_CODES, is_language_code, language_code
from disent_core.corpora.lines import files_hash, parallel_lines, sentence_pairs_table
from disent_core.corpora.paths import absent, check_folder, files_below
from disent_core.errors import CorpusError, located

KIND: Kind = "bitext"
TRAINS = True
SHARES: Shares | None = (0.9, 0.05, 0.05)


class Sides(NamedTuple):
    """The two files of a pair."""

    source: Path
    target: Path


def pairs(path: Path) -> list[str]:
    """Pairs in the folder or below it, sorted: `en-de` for `en-de.en`. If the names give no direction
    (`corpus.en`, `corpus.de`), the source is English, else the alphabetically first language.

    Raises:
        CorpusError: if the folder does not exist, has no pair, or has one pair twice.
    """
    return sorted(pair_files(path, _sides_of_stem))


def read_pairs(path: Path, pair: str, *, corpus: str) -> pa.Table:
    """Rows of one pair in the schema `sentence_pairs`, in the order of the files, all in split `test`.

    The `pair_id` is the line number. Lines that are blank in both files are skipped; a pair without one side, or with
    a text that can't be stored, is left out.

    Raises:
        AlignmentError: if the files are of unequal length, or half of the pairs lack a side.
        CorpusError: if the pair is absent, or a file is missing, empty, not UTF-8, or half of the texts can't be
            stored.
    """
    return read_sides(sides_of(path, pair, _sides_of_stem), pair, corpus=corpus)


def content_hash(path: Path, pair: str) -> str:
    """SHA-256, 64 hex digits, of the two files of this pair.

    Raises:
        CorpusError: as `read_pairs`, short of malformed lines.
    """
    return files_hash(sides_of(path, pair, _sides_of_stem))


# --- two aligned files of any names -----------------------------------------------------------------------

StemReader = Callable[[str, Mapping[str, Path]], Mapping[tuple[str, str], Sides]]
"""Maps a stem and its files by suffix to the pairs that they form."""


def pair_files(path: Path, sides_of_stem: StemReader) -> dict[str, Sides]:
    """Return the two files of every pair in the folder or below it, by the pair's name in codes of `languages`.

    Raises:
        CorpusError: if the folder does not exist, has no pair, or has one pair twice.
    """
    check_folder(path)
    stems: dict[tuple[Path, str], dict[str, Path]] = defaultdict(dict)
    for file in files_below(path, "*.*"):
        stem, _, suffix = file.name.rpartition(".")
        if stem and is_language_code(suffix) and file.is_file():
            stems[file.parent, stem][suffix] = file
    pairs_found: dict[str, Sides] = {}
    for (_, stem), files in stems.items():
        for languages, sides in sides_of_stem(stem, files).items():
            name = "-".join(map(language_code, languages))
            if name in pairs_found:
                problem = f"{pairs_found[name].source.name} and {sides.source.name} are both the pair {name}"
                raise CorpusError(located(sides.source, None, problem, "Put each into a separate folder"))
            pairs_found[name] = sides
    if not pairs_found:
        remedy = "Files are named like en-de.en and en-de.de; is this the right path?"
        raise CorpusError(located(path, None, "it has no two aligned files of such names", remedy))
    return pairs_found


def sides_of(path: Path, pair: str, sides_of_stem: StemReader) -> Sides:
    """Return the two files of one pair; `de-en` is also found under the name `en-de`.

    Raises:
        CorpusError: if the pair is absent.
    """
    pairs_found = pair_files(path, sides_of_stem)
    if pair in pairs_found:
        return pairs_found[pair]
    for source, target in pairs_found.values():
        if pair == "-".join(language_code(side.suffix[1:]) for side in (target, source)):
            return Sides(target, source)
    raise absent(path, f"the pair {pair!r}", pairs_found)


def read_sides(sides: Sides, pair: str, *, corpus: str) -> pa.Table:
    """Read rows of two aligned files, all in split `test`, as `read_pairs`."""
    faults = Faults()
    numbers, sources, targets = parallel_lines(*sides, faults)
    table = sentence_pairs_table(
        corpus,
        pair,
        pair_ids=pa.array(numbers).cast(pa.string()),
        splits=pa.repeat("test", len(numbers)),
        sources=sources,
        targets=targets,
    )
    return faults.told(table)


def named_sides(name: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    """Parse `name`, `en-de` or `zh-TW-en`, into a pair, if one of its languages is a suffix of the files.

    Its other file may be missing; reading the pair reports that.
    """
    for suffix, file in files.items():
        for source, target in ((suffix, name.removeprefix(f"{suffix}-")), (name.removesuffix(f"-{suffix}"), suffix)):
            if f"{source}-{target}" == name and is_language_code(source) and is_language_code(target):
                paths = [files.get(language, file.with_suffix(f".{language}")) for language in (source, target)]
                return {(source, target): Sides(*paths)}
    return {}


def _sides_of_stem(stem: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    if named := named_sides(stem.rpartition(".")[2], files):
        return named
    languages = sorted(
        (suffix for suffix in files if suffix in TWO_LETTER_CODES), key=lambda code: (code != "en", code)
    )
    return {pair: Sides(files[pair[0]], files[pair[1]]) for pair in combinations(languages, 2)}

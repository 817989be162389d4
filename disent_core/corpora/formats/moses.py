"""Read two aligned files, where line i of one translates line i of the other: Moses bitext, and Tatoeba.

In Moses format the files are named `[PREFIX.]en-de.en` and `[PREFIX.]en-de.de`, as in OPUS, or `PREFIX.en` and
`PREFIX.de`. Koehn et al. 2007, https://aclanthology.org/P07-2045.
The Tatoeba test sets of LASER are `tatoeba.deu-eng.deu` and `tatoeba.deu-eng.eng`: up to 1,000 sentences in each
of 112 languages. Artetxe and Schwenk 2019, https://aclanthology.org/Q19-1038.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import TWO_LETTER_CODES, is_language_code, language_code
from disent_core.corpora.lines import parallel_lines, sentence_pairs_table
from disent_core.corpora.paths import absent, files_below, files_hash, no_files
from disent_core.corpora.row_errors import RowErrors
from disent_core.errors import CorpusError, located


class Sides(NamedTuple):
    source: Path
    target: Path


@dataclass(frozen=True)
class AlignedFiles:
    """The reader of a format with two aligned files per pair.

    `sides_of_stem` defines how the files are named, by a stem and its files by suffix -> the pairs of languages that
    they form; `examples` of such names are for messages.
    """

    KIND: Kind
    TRAINS: bool
    SHARES: Shares | None
    sides_of_stem: Callable[[str, Mapping[str, Path]], Mapping[tuple[str, str], Sides]]
    examples: str

    def pairs(self, path: Path) -> list[str]:
        """Return the pairs in the folder or below it, sorted: `en-de` for `en-de.en`, `de-en` for `tatoeba.deu-eng.*`.

        If the names give no direction (`corpus.en`, `corpus.de`), the source is English, else the alphabetically first
        language.
        """
        return sorted(_pair_files(path, self))

    def read_pairs(self, path: Path, pair: str, *, corpus: str) -> pa.Table:
        """Read one pair in the schema `sentence_pairs`, in the order of the files, all in split `test`.

        The `pair_id` is the line number. Lines that are blank in both files are skipped; a pair without one side, or
        with a text that can't be stored, is left out.
        """
        row_errors = RowErrors()
        numbers, sources, targets = parallel_lines(*_sides_of(path, pair, self), row_errors)
        ids, splits = pa.array(numbers).cast(pa.string()), pa.repeat("test", len(numbers))
        columns = {"pair_id": ids, "split": splits, "source": sources, "target": targets}
        return row_errors.noted(sentence_pairs_table(corpus, pair, **columns))

    def content_hash(self, path: Path, pair: str) -> str:
        return files_hash(_sides_of(path, pair, self))


def _pair_files(path: Path, named: AlignedFiles) -> dict[str, Sides]:
    """Return the two files of every pair in the folder or below it, by the pair's name in codes of `languages`."""
    stems: dict[tuple[Path, str], dict[str, Path]] = defaultdict(dict)
    for file in files_below(path, "*.*"):
        stem, _, suffix = file.name.rpartition(".")
        if stem and is_language_code(suffix) and file.is_file():
            stems[file.parent, stem][suffix] = file
    sides_of: dict[str, Sides] = {}
    for (_, stem), files in stems.items():
        for languages, sides in named.sides_of_stem(stem, files).items():
            name = "-".join(map(language_code, languages))
            if name in sides_of:
                problem = f"{sides_of[name].source.name} and {sides.source.name} are both the pair {name}"
                raise CorpusError(located(sides.source, None, problem, "Put each into a separate folder"))
            sides_of[name] = sides
    if not sides_of:
        raise no_files(path, "it has no two aligned files of this format", named.examples)
    return sides_of


def _sides_of(path: Path, pair: str, named: AlignedFiles) -> Sides:
    """Return the two files of one pair; `de-en` is also found under the name `en-de`."""
    sides_of = _pair_files(path, named)
    if pair in sides_of:
        return sides_of[pair]
    for source, target in sides_of.values():
        if pair == "-".join(language_code(side.suffix[1:]) for side in (target, source)):
            return Sides(target, source)
    raise absent(path, f"pair {pair!r}", sides_of)


def _named_sides(name: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    """Parse `name`, such as `en-de` or `zh-TW-en`, into a pair if one of its languages is a suffix of the files."""
    for suffix, file in files.items():
        for source, target in ((suffix, name.removeprefix(f"{suffix}-")), (name.removesuffix(f"-{suffix}"), suffix)):
            if f"{source}-{target}" == name and is_language_code(source) and is_language_code(target):
                paths = [files.get(language, file.with_suffix(f".{language}")) for language in (source, target)]
                return {(source, target): Sides(*paths)}
    return {}


def _moses_sides(stem: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    if named := _named_sides(stem.rpartition(".")[2], files):
        return named
    languages = sorted(
        (suffix for suffix in files if suffix in TWO_LETTER_CODES), key=lambda code: (code != "en", code)
    )
    return {pair: Sides(files[pair[0]], files[pair[1]]) for pair in combinations(languages, 2)}


def _tatoeba_sides(stem: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    prefix, _, name = stem.rpartition(".")
    return _named_sides(name, files) if prefix == "tatoeba" else {}


MOSES = AlignedFiles(
    "bitext", TRAINS=True, SHARES=(0.9, 0.05, 0.05), sides_of_stem=_moses_sides, examples="en-de.en and en-de.de"
)
TATOEBA = AlignedFiles(
    "translations",
    TRAINS=False,
    SHARES=None,
    sides_of_stem=_tatoeba_sides,
    examples="tatoeba.deu-eng.deu and tatoeba.deu-eng.eng",
)

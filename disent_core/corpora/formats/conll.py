"""Read named entities in CoNLL format: one token and its tag per line, and a blank line between sentences.

Tjong Kim Sang and De Meulder 2003, https://aclanthology.org/W03-0419; Adelani et al. 2021, MasakhaNER,
https://aclanthology.org/2021.tacl-1.66. Files lie in one folder per language (`yor/train.txt`), or their names
contain the language (`eng.testa`, `yor-dev.conll`). Columns are separated by tab or space; the first is the token, the
last its tag in BIO, IOB1, IOBES or BILOU; `-DOCSTART-` lines are skipped.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_core.corpora.annotation import OUTSIDE, bio_tags
from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import is_language_code, language_code
from disent_core.corpora.lines import check_length, read_lines, stored_text, utterance, utterances_table
from disent_core.corpora.paths import absent, files_below, files_hash, no_files, two_files
from disent_core.corpora.row_errors import RowError, RowErrors
from disent_core.errors import CorpusError, located, quoted
from disent_core.text import normalise, separator_of

KIND: Kind = "entities"
TRAINS = True
SHARES: Shares | None = None
PARALLEL = "none"
LOCALES = None

_SPLITS = {
    "train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "testa": "dev", "test": "test",
    "testb": "test",
}  # fmt: skip
_ENDINGS = frozenset({"txt", "conll", "tsv", "bio", "iob", "iob2", "ner"})
_SEPARATOR = re.compile("[ \t]+")


language_of = language_code


def locales(path: Path) -> list[str]:
    """Return the languages in the folder or below it, each as its first file names it, sorted."""
    names = {language: published for (language, _), (published, _) in reversed(_files(path).items())}
    return sorted(names.values())


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Read one language in the schema `utterances`: train, dev, test, each in the order of its file.

    The `utterance_id` of a row is its split and its number there. Its text is the tokens joined by spaces (by nothing
    in scripts without spaces); it has no intent. Tags are normalised to BIO. Lines with a tag `O` and no token are
    skipped. A sentence with any other line that is not a token and a tag is left out.
    """
    files, row_errors = _files_of(path, locale), RowErrors()
    rows = [row for split in dict.fromkeys(_SPLITS.values()) if split in files
            for row in _sentences(files[split], split, language, row_errors)]  # fmt: skip
    return row_errors.noted(utterances_table(rows, corpus, language))


def content_hash(path: Path, locale: str) -> str:
    """Return the SHA-256, 64 hex digits, of the files of all splits of this language."""
    files = _files_of(path, locale)
    return files_hash(files[split] for split in sorted(files))


# --- files ------------------------------------------------------------------------------------------------


def _files_of(path: Path, locale: str) -> dict[str, Path]:
    files_by_language = _files(path)
    code = language_code(locale) if is_language_code(locale) else locale
    files = {split: file for (language, split), (_, file) in files_by_language.items() if language == code}
    if not files:
        raise absent(path, f"language {locale!r}", {published for published, _ in files_by_language.values()})
    return files


def _files(path: Path) -> dict[tuple[str, str], tuple[str, Path]]:
    """Return (language, split) -> language as published, file."""
    files: dict[tuple[str, str], tuple[str, Path]] = {}
    for file in files_below(path, "*"):
        language_and_split = _language_and_split(file) if file.is_file() else None
        if language_and_split is None:
            continue
        published, split = language_and_split
        _, first = files.setdefault((language_code(published), split), (published, file))
        if first != file:
            raise two_files(path, file, first)
    if not files:
        raise no_files(path, "it has no files of this format", "yor/train.txt or eng.train")
    return files


def _language_and_split(file: Path) -> tuple[str, str] | None:
    """Parse language (as published) and split from the name of the file or its folder; None for other files."""
    parts = [part for part in re.split("[._-]", file.name) if part.lower() not in _ENDINGS]
    splits = [part for part in parts if part.lower() in _SPLITS]
    language_parts = [part for part in parts if part not in splits]
    if len(splits) != 1 or len(language_parts) > 1:
        return None
    published = language_parts[0] if language_parts else file.parent.name
    return (published, _SPLITS[splits[0].lower()]) if is_language_code(published) else None


# --- sentences --------------------------------------------------------------------------------------------


def _sentences(path: Path, split: str, language: str, row_errors: RowErrors) -> Iterator[dict[str, Any]]:
    count = kept = 0
    for block in _blocks(path):
        at, pairs = block[0][0], []
        try:
            for at, line in block:  # noqa: B007 - the error names the line
                pairs += _token(line)
            if not pairs:
                continue
            at = block[0][0]
            check_length(separator_of(language).join(token for token, _ in pairs))
            tokens, tags = [normalise(token) for token, _ in pairs], bio_tags([tag for _, tag in pairs])
            text = stored_text(separator_of(language).join(tokens))
        except ValueError as error:
            count += 1
            fault = getattr(error, "fault", "a sentence with a line that is not a token and a tag is left out")
            row_errors.leave_out(path, at, RowError(f"in this sentence, {error}", fault))
            continue
        count, kept = count + 1, kept + 1
        yield utterance(f"{split}-{count}", split, text, tokens, tags)
    if not count:
        raise CorpusError(located(path, None, "this file has no sentences", "Write or download it again"))
    row_errors.check(kept, path)


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    lines: list[tuple[int, str]] = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if line.strip() and not line.startswith("-DOCSTART-"):
            lines.append((number, line))
        elif lines:
            yield lines
            lines = []


def _token(line: str) -> list[tuple[str, str]]:
    """Return token and tag of a line, or nothing for a line with only a separator and the tag `O`."""
    columns = line.rstrip().split("\t") if "\t" in line else _SEPARATOR.split(line.rstrip())
    token, tag = columns[0].strip(" "), columns[-1].strip(" ")
    if len(columns) > 1 and not token.strip() and tag == OUTSIDE:
        return []
    if len(columns) < 2 or not token.strip() or not tag:
        raise ValueError(f"expected a token and its tag, found {quoted(line)}")
    return [(token, tag)]

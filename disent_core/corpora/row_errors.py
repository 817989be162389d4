"""Read around the faults that published files are known to have: leave a row out or repair it, and count each fault.

A fault is logged once, when the file is read, and its count is stored with the rows. A file that would lose at least
half of its rows is not what its publisher made, so it is an error.
"""

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from disent_core.errors import CorpusError, located, quoted
from disent_core.storage.tables import NOTES, TableInfo

log = logging.getLogger(__name__)

REMEDY = "Correct this line"
PUBLISHED = f"{REMEDY}, or download the file again"
"""Remedies for a file of any origin, and for one that few users write."""

Row = TypeVar("Row")
Item = TypeVar("Item")
Location = tuple[Path, int]
"""File and line."""


class RowError(ValueError):
    """A row that can't be used; `fault` describes such rows and how they are handled, as shown in the log."""

    def __init__(self, problem: str, fault: str) -> None:
        super().__init__(problem)
        self.fault = fault


class RowErrors:
    """The faults of the files of one language or pair."""

    def __init__(self, remedy: str = REMEDY) -> None:
        self._remedy = remedy
        self._counts: Counter[tuple[Path, str]] = Counter()
        self._first_lines: dict[tuple[Path, str], int] = {}
        self._left_out: Counter[Path] = Counter()
        self._errors: dict[Path, CorpusError] = {}

    def repair(self, path: Path, line: int, fault: str) -> None:
        """Count a row that is not read as it is written; `fault` describes the change."""
        self._counts[path, fault] += 1
        self._first_lines.setdefault((path, fault), line)

    def leave_out(self, path: Path, line: int, problem: RowError, error: type[CorpusError] = CorpusError) -> None:
        """Count a row that can't be used."""
        self.repair(path, line, problem.fault)
        self._left_out[path] += 1
        self._errors.setdefault(path, error(located(path, line, str(problem), self._remedy)))

    def parsed(
        self, path: Path, items: Iterable[tuple[int, Item]], parse: Callable[[Item], Row]
    ) -> Iterator[tuple[Location, Item, Row]]:
        """Parse items of a file, each with its line, and yield their location, item and row.

        If `parse` raises a `RowError`, the row is left out; any other `ValueError` is an error of the file.
        """
        for line, item in items:
            try:
                row = parse(item)
            except RowError as problem:
                self.leave_out(path, line, problem)
            except ValueError as error:
                raise CorpusError(located(path, line, str(error), self._remedy)) from error
            else:
                yield (path, line), item, row

    def check(self, kept: int, *paths: Path) -> None:
        """Check that a file, or several files read together, are what their publisher made."""
        left_out = sum(self._left_out[path] for path in paths)
        if left_out and left_out >= kept:
            raise next(self._errors[path] for path in paths if path in self._errors)

    def log(self) -> None:
        """Log each fault of each file once."""
        for (path, fault), count in self._counts.items():
            log.warning("%s:%d: %s (%d in this file)", path, self._first_lines[path, fault], fault, count)

    def noted(self, table: pa.Table) -> pa.Table:
        """Log the faults, and return the table with their counts as its notes."""
        self.log()
        rows = [
            {"file": path.name, "fault": fault, "count": count, "first_line": self._first_lines[path, fault]}
            for (path, fault), count in self._counts.items()
        ]
        return table.replace_schema_metadata({NOTES: json.dumps(rows)}) if rows else table

    def distinct(self, rows: Sequence[tuple[Location, str, Row]], *paths: Path) -> list[tuple[str, Row]]:
        """Return the rows of files with distinct ids, and check that enough rows are kept.

        The first row with an id keeps it. A row equal to an earlier one with its id is left out; any other row gets the
        id `ID-2` (or the next free number), so that it is not taken for a translation of the row with that id in
        another language. Rows are compared by their representation.
        """
        distinct = list(self._distinct(rows))
        self.check(len(distinct), *paths)
        return distinct

    def _distinct(self, rows: Sequence[tuple[Location, str, Row]]) -> Iterator[tuple[str, Row]]:
        counts = Counter(published for _, published, _ in rows)
        numbers: defaultdict[str, int] = defaultdict(lambda: 2)
        first_locations: dict[str, Location] = {}
        seen: defaultdict[str, set[str]] = defaultdict(set)
        for location, published, row in rows:
            if counts[published] == 1:
                yield published, row
                continue
            content = repr(row)
            file, line = first_locations.setdefault(published, location)
            if not seen[published]:
                yield published, row
            elif content in seen[published]:
                problem = f"id {quoted(published)} is already at {file.name}:{line}"
                self.leave_out(*location, RowError(problem, "a duplicate of an earlier row is left out"))
            else:
                while (new := f"{published}-{numbers[published]}") in counts:
                    numbers[published] += 1
                numbers[published] += 1
                self.repair(*location, "a row with the id of an earlier row gets an id of its own")
                yield new, row
            seen[published].add(content)


def row_errors_of(info: TableInfo) -> list[dict[str, Any]]:
    """Return the faults that were worked around when a table was made: file, fault, count and first line."""
    return json.loads(info.notes) if info.notes else []

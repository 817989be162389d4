"""Search an index exactly: a score depends on text and query alone, not on parts, blocks or threads."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Float32, Int64

from disent_core import exact
from disent_core.embeddings.arrays import keys_array
from disent_core.errors import DamagedError, TableError, located
from disent_core.evaluation.metrics.grid import Neighbours
from disent_core.evaluation.metrics.ranking import Groups, expanded, grouped, unit_rows
from disent_core.search.contents import REMEDY, Approximate, Contents, Part, read_contents
from disent_core.search.memory import NONE, best_of
from disent_core.search.parts import TEXT_SCHEMA, arrays_of, checked_file, read_all_texts
from disent_core.storage.text_columns import TextColumn

_NEW = f"{REMEDY}, in a new folder"
_TRIES = 3
_FEW_PAIRS = 1 << 25
"""Pairs of rows that numpy compares in about the processor time that importing torch takes."""


class Proposals(NamedTuple):
    """A faiss index, and the numbers of the parts whose texts it has."""

    index: Any
    parts: frozenset[int]


class _Arrays(NamedTuple):
    """Distinct rows of an embedding, the number of each text's row among them, and the texts of each."""

    values: Float32[np.ndarray, "distinct dim"]
    group: Int64[np.ndarray, " texts"]
    groups: Groups


class StoredIndex:
    """An index on disk, as it was when it was opened. Arrays are mapped into memory when they are first searched."""

    def __init__(self, folder: Path, contents: Contents) -> None:
        self.folder, self.contents = folder, contents
        self.title, self.approximate, self.noise = contents.head.title, contents.approximate, contents.level
        self.embeddings = tuple(contents.embeddings)
        self.spoken = frozenset(part.language for part in contents.parts)
        tables = read_all_texts(folder, contents.parts)
        table = pa.concat_tables([*tables, TEXT_SCHEMA.empty_table()])
        rows = table["row"].to_numpy()
        if len(rows) != contents.rows or not np.array_equal(np.sort(rows), np.arange(len(rows))):
            problem = f"the {len(rows)} texts of its parts are not the {contents.rows} that it lists"
            raise TableError(located(folder, None, problem, _NEW))
        # Texts are stored by part. `_position` is where a row of the index is stored, `_starts` where each part begins.
        self._position = np.argsort(rows)
        self._starts = np.cumsum([0, *map(len, tables)])
        self._rows = dict(
            zip((part.number for part in contents.parts), np.split(rows, self._starts[1:-1]), strict=False)
        )
        self.texts, self.languages = (
            TextColumn.whole(table[name]).take(self._position) for name in ("text", "language")
        )
        self.keys: np.ndarray = keys_array(table["text_key"])[self._position]
        self._arrays: dict[tuple[int, str], _Arrays] = {}
        self._proposals: dict[str, Proposals] = {}

    def nearest(
        self,
        queries: Float[np.ndarray, "queries dim"],
        embedding: str,
        k: int,
        *,
        keep: Callable[[str | None], bool] | None = None,
        without: Sequence[str] | None = None,
        is_exact: bool = False,
        proposals: Proposals | None = None,
    ) -> Neighbours:
        """Find the k texts with the highest cosines to each query, a vector of any norm; pad fewer with rows of -1.

        A faiss index, if there is one, proposes texts, which then get their exact scores. With `keep`, only texts of
        the languages that it accepts are searched, and exactly. `without` has, for each query, the key of a text that
        it must not find. `proposals` come from a faiss index that is not part of the index yet.
        """
        units = unit_rows(queries, "queries")
        if proposals is None and keep is None and not is_exact:
            proposals = self._stored_proposals(embedding)
        parts = [part for part in self.contents.parts if keep is None or keep(part.language)]
        covered = frozenset() if proposals is None else proposals.parts
        languages = len({part.language for part in parts})  # each has a text at most once
        count = k if without is None else k + languages
        of_parts = [
            self._nearest_of_part(units, part, embedding, count) for part in parts if part.number not in covered
        ]
        if proposals is not None:
            of_parts.append(self._nearest_of_proposals(units, proposals, embedding, count))
        return best_of(of_parts, len(units), k, self.keys, without)

    def _nearest_of_part(
        self, units: Float32[np.ndarray, "queries dim"], part: Part, embedding: str, k: int
    ) -> Neighbours:
        values, group, groups = self._arrays_of(part, embedding)
        # By numpy, if that is faster than torch imports, or torch is absent.
        is_small = len(units) * len(values) <= _FEW_PAIRS
        if sys.modules.get("torch") is None and (is_small or find_spec("torch") is None):
            scores, best = exact.nearest_rows(units, values, min(k, part.rows), group)
            return scores, self._rows[part.number][best]
        from disent_core.evaluation.metrics.exact_search import nearest_rows

        scores, best = nearest_rows(units, values, min(k, len(values)))
        if len(values) < part.rows:
            scores, best = expanded(scores, best, groups, min(k, part.rows))
        return scores, self._rows[part.number][best]

    def _nearest_of_proposals(
        self, units: Float32[np.ndarray, "queries dim"], proposals: Proposals, embedding: str, k: int
    ) -> Neighbours:
        """Return the texts that faiss proposes, and those with equal vectors, with their exact scores."""
        _, proposed = proposals.index.search(units, k)
        if proposed.max(initial=NONE) >= len(self._position):
            raise DamagedError(located(self.folder, None, "its faiss index finds rows that do not exist", _NEW))
        scored = [self._scored(unit, rows[rows >= 0], embedding, k) for unit, rows in zip(units, proposed, strict=True)]
        best = [best_of([(scores[None], rows[None])], 1, k, self.keys, None) for scores, rows in scored]
        scores, rows = (np.concatenate(columns) for columns in zip(*best, strict=True))
        return scores, rows

    def _scored(
        self, unit: Float32[np.ndarray, " dim"], rows: Int64[np.ndarray, " proposed"], embedding: str, k: int
    ) -> tuple[Float32[np.ndarray, " found"], Int64[np.ndarray, " found"]]:
        """Return exact scores of some rows and of the texts with equal vectors, at most k per vector."""
        scores, members = [np.empty(0, np.float32)], [np.empty(0, np.int64)]
        for part, _, positions in self._by_part(self._position[rows]):
            values, group, groups = self._arrays_of(part, embedding)
            for number in np.unique(group[positions]):
                score = np.float32(values[number].astype(np.float64) @ unit.astype(np.float64))
                start = groups.starts[number]
                same = groups.members[start : start + min(groups.sizes[number], k)]
                scores.append(np.full(len(same), score))
                members.append(self._rows[part.number][same])
        return np.concatenate(scores), np.concatenate(members)

    def _by_part(
        self, positions: Int64[np.ndarray, " positions"]
    ) -> Iterator[tuple[Part, Bool[np.ndarray, " positions"], Int64[np.ndarray, " of_part"]]]:
        """Yield the parts that contain some of the positions, which these are, and their places in the part."""
        which = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(which):
            is_of_part = which == number
            yield self.contents.parts[number], is_of_part, positions[is_of_part] - self._starts[number]

    def _stored_proposals(self, embedding: str) -> Proposals | None:
        """Return the faiss index, read on first use; None if there is none, or faiss is not installed."""
        approximate = self.contents.approximate
        if approximate is None or find_spec("faiss") is None:
            return None
        if embedding not in self._proposals:
            folder = Approximate.folder(self.folder, approximate.number)
            with self._replaced():
                path = checked_file(folder / f"{embedding}.faiss", approximate.files)
            index = _read_faiss(path, self.contents.embeddings[embedding])
            self._proposals[embedding] = Proposals(index, frozenset(approximate.parts))
        return self._proposals[embedding]

    def _arrays_of(self, part: Part, embedding: str) -> _Arrays:
        if (part.number, embedding) not in self._arrays:
            with self._replaced():
                values, group = arrays_of(self.folder, part, embedding, self.contents.embeddings[embedding])
            self._arrays[part.number, embedding] = _Arrays(values, group, grouped(group))
        return self._arrays[part.number, embedding]

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Name the cause if a file is gone because texts were added, which is not damage."""
        try:
            yield
        except DamagedError as error:
            if read_contents(self.folder) == self.contents:
                raise
            problem = "texts were added to this index since it was opened"
            raise TableError(located(self.folder, None, problem, "Open it again")) from error

    def units(self, embedding: str, rows: Int64[np.ndarray, " rows"]) -> Float32[np.ndarray, "rows dim"]:
        """Return the vectors of some rows, scaled to norm 1."""
        units = np.empty((len(rows), self.contents.embeddings[embedding]), dtype=np.float32)
        for part, is_of_part, places in self._by_part(self._position[rows]):
            arrays = self._arrays_of(part, embedding)
            units[is_of_part] = arrays.values[arrays.group[places]]
        return units

    def distinct(
        self, embedding: str
    ) -> tuple[Int64[np.ndarray, " distinct"], Callable[[np.ndarray], Float32[np.ndarray, "some dim"]]]:
        """Return the first row of each distinct vector of a part, and a function from their numbers to vectors."""
        groups = [(part, self._arrays_of(part, embedding).groups) for part in self.contents.parts]
        rows = np.concatenate([self._rows[part.number][group.members[group.starts]] for part, group in groups])
        return rows, lambda numbers: self.units(embedding, rows[numbers])


def _read_faiss(path: Path, dim: int) -> Any:
    """Read a faiss index; no vector in it is larger than the file, whatever its header claims."""
    import faiss

    most = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(path.stat().st_size)
    try:
        index = faiss.read_index(str(path))
    except (RuntimeError, MemoryError) as error:
        raise DamagedError(located(path, None, "faiss can't read this file", _NEW)) from error
    finally:
        faiss.set_deserialization_vector_byte_limit(most)
    if index.d != dim:
        raise DamagedError(located(path, None, f"its vectors have {index.d} numbers, not {dim}", _NEW))
    return index


def open_index(folder: Path) -> StoredIndex:
    """Open an index, trying again if another process replaces its parts meanwhile."""
    for attempt in range(1, _TRIES + 1):
        if (contents := read_contents(folder)) is None:
            raise TableError(located(folder, None, "there is no index here", REMEDY))
        try:
            return StoredIndex(folder, contents)
        except DamagedError:
            if attempt == _TRIES or read_contents(folder) == contents:
                raise
    raise AssertionError  # the last try returns or raises

"""Search an index exactly: a score depends on the text and the query alone, not on parts, blocks or threads."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Float32, Int64

from disent_core.embeddings.arrays import KEY, keys_array
from disent_core.errors import DamagedError, TableError, located
from disent_core.evaluation.metrics.ranking import Groups, expanded, grouped, unit_rows
from disent_core.search.contents import REMEDY, Contents, Part, read_contents
from disent_core.search.parts import arrays_of, read_texts, text_schema

Found = tuple[Float32[np.ndarray, "queries k"], Int64[np.ndarray, "queries k"]]
"""Scores and rows, the highest first, equal ones by row; fewer than k end in rows of -1."""

_NONE = -1
_TRIES = 3


class Column(Sequence[Any]):
    """Values by the row of the index."""

    def __init__(self, values: pa.Array, places: Int64[np.ndarray, " rows"]) -> None:
        self._values, self._places = values, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, row: int | slice) -> Any:
        """The value of a row, or a list of those of several."""
        if isinstance(row, slice):
            return self._values.take(pa.array(self._places[row])).to_pylist()
        return self._values[int(self._places[row])].as_py()


class StoredIndex:
    """An index on disk, as it was when it was opened. Arrays are mapped into memory when they are first searched."""

    def __init__(self, folder: Path, contents: Contents) -> None:
        self.folder, self.contents = folder, contents
        tables = [read_texts(folder, part) for part in contents.parts]
        rows = [table["row"].to_numpy() for table in tables]
        self._rows = dict(zip((part.number for part in contents.parts), rows, strict=True))
        stored = np.concatenate([*rows, np.empty(0, np.int64)])
        if not np.array_equal(np.sort(stored), np.arange(contents.rows)):
            problem = f"its parts have {len(stored)} texts, and not those that it says it has"
            raise TableError(located(folder, None, problem, f"{REMEDY}, in a new folder"))
        places = np.argsort(stored)
        table = pa.concat_tables([*tables, text_schema().empty_table()])
        self.texts = Column(table["text"].cast(pa.large_string()).combine_chunks(), places)
        self.languages = Column(table["language"].cast(pa.large_string()).combine_chunks(), places)
        self.keys: np.ndarray = keys_array(table["text_key"])[places]
        self._arrays: dict[tuple[int, str], tuple[np.ndarray, Groups]] = {}

    def nearest(
        self,
        queries: Float[np.ndarray, "queries dim"],
        embedding: str,
        k: int,
        *,
        keep: Callable[[str | None], bool] = lambda language: True,
        without: Sequence[str] | None = None,
    ) -> Found:
        """Find the k texts with the highest cosines.

        Args:
            queries: vectors of any norm.
            embedding: name of one of the index.
            k: texts per query.
            keep: whether texts of a language are searched.
            without: for each query the key of a text that it must not find.

        Raises:
            EncoderError: if a query is not finite.
            DamagedError: if a file of the index is missing or damaged.
        """
        units = unit_rows(queries, "queries")
        fetched = k + (without is not None)  # a language has each text once
        parts = [part for part in self.contents.parts if keep(part.language)]
        found = [self._nearest_of_part(units, part, embedding, fetched) for part in parts]
        nothing = np.full((len(units), k), -np.inf, dtype=np.float32), np.full((len(units), k), _NONE)
        scores, rows = (np.concatenate(columns, axis=1) for columns in zip(*found, nothing, strict=True))
        if without is not None:
            is_left_out = (rows != _NONE) & (self.keys[rows] == np.asarray(without, dtype=KEY)[:, None])
            scores, rows = np.where(is_left_out, np.float32(-np.inf), scores), np.where(is_left_out, _NONE, rows)
        order = np.lexsort((np.where(rows == _NONE, len(self.keys), rows), -scores))[:, :k]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)

    def _nearest_of_part(self, units: Float32[np.ndarray, "queries dim"], part: Part, embedding: str, k: int) -> Found:
        from disent_core.evaluation.metrics.exact_search import nearest_rows

        values, groups = self._arrays_of(part, embedding)
        scores, best = nearest_rows(units, values, min(k, len(values)))
        if len(values) < part.rows:
            scores, best = expanded(scores, best, groups, min(k, part.rows))
        return scores, self._rows[part.number][best]

    def _arrays_of(self, part: Part, embedding: str) -> tuple[np.ndarray, Groups]:
        if (part.number, embedding) not in self._arrays:
            values, group = arrays_of(self.folder, part, embedding)
            self._arrays[part.number, embedding] = values, grouped(group)
        return self._arrays[part.number, embedding]


def open_index(folder: Path) -> StoredIndex:
    """Open an index. Another process may replace its parts meanwhile.

    Raises:
        TableError: if there is no index.
        DamagedError: if one of its files is missing or damaged.
    """
    for tried in range(1, _TRIES + 1):
        if (contents := read_contents(folder)) is None:
            raise TableError(located(folder, None, "there is no index here", REMEDY))
        try:
            return StoredIndex(folder, contents)
        except DamagedError:
            if tried == _TRIES or read_contents(folder) == contents:
                raise
    raise AssertionError  # the last try returns or raises

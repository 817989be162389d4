"""Keep arrays of embeddings in files that grow with the Parquet parts of a table.

    <table>-<hash>/{keys,values,lengths}.bin, record.json

Rows are stored in consecutive groups; the rows of a group come from a few parts and are sorted by key. New parts are
appended as further groups: stored rows are never written again. `record.json` lists the groups with the hashes of their
bytes and is replaced last, so a reader sees either the old groups or all. No Python object is made for a row.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from jaxtyping import Int, Num

from disent_core.embeddings.arrays import KEY, StateTable, VectorTable, keys_array
from disent_core.errors import TableError, located
from disent_core.storage.files import atomic_path, locked, storage_errors, write_text
from disent_core.storage.remote import touch
from disent_core.storage.results import fetch, quarantine
from disent_core.storage.tables import fingerprint, read_parquet

GROUP_BYTES = 1 << 27
"""Parts are sorted together up to this size, so that the few parts of most homes make one sorted group."""
_STALE_SECONDS = 3_600.0
_RECORD = "record.json"
_LENGTH = np.dtype(np.int32)


@dataclass(frozen=True)
class _Group:
    """Texts of some parts: numbers of texts and of value rows, and the SHA-256 of their bytes by file."""

    parts: list[str]
    texts: int
    rows: int
    sha256: dict[str, str]


@dataclass(frozen=True)
class _Record:
    """Contents of a folder of arrays; `kind` and `dim` describe the values."""

    kind: str
    dim: int
    groups: list[_Group]

    @property
    def parts(self) -> set[str]:
        return {name for group in self.groups for name in group.parts}

    def bytes_of(self, name: str, group: _Group) -> int:
        if name == "values":
            return group.rows * self.dim * np.dtype(self.kind).itemsize
        return group.texts * (KEY if name == "keys" else _LENGTH).itemsize


def open_table(cache: Path, table: str, parts: Sequence[Path], source: Path) -> VectorTable | StateTable:
    """Open a table's arrays in the folder `cache`, after appending those of `parts` in `source` that they lack."""
    if not parts:
        remedy = "Materialise the embeddings of this encoder and language first"
        raise TableError(located(source, None, "no embeddings are stored here", remedy))
    names = {part.name for part in parts}
    folder, record = _current(cache, table, names)
    if record is None or record.parts != names or not _is_intact(folder, record):
        with locked(cache / table):
            folder, record = _current(cache, table, names)
            if record is not None and not _is_intact(folder, record):
                quarantine(folder, "is not as it was written")
                record = None
            if record is None:
                folder = cache / f"{table}-{fingerprint('growing', sorted(names))[:16]}"
                with atomic_path(folder) as temporary:
                    temporary.mkdir()
                    record = _append(temporary, None, parts)
            elif lacking := [part for part in parts if part.name not in record.parts]:
                record = _append(folder, record, lacking)
        for older in cache.glob(f"{table}-*"):  # too old for another process to be about to open it
            if older != folder and time.time() - older.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(older, ignore_errors=True)
    touch(folder / _RECORD)
    return _mapped(folder, record, str(source))


def _current(cache: Path, table: str, names: set[str]) -> tuple[Path, _Record | None]:
    """Return the folder with the largest number of these parts and no others."""
    stored = [(folder, record) for folder in sorted(cache.glob(f"{table}-*")) if (record := _read_record(folder))]
    usable = [(folder, record) for folder, record in stored if record.parts <= names]
    return max(usable, key=lambda candidate: len(candidate[1].parts), default=(cache, None))


def _read_record(folder: Path) -> _Record | None:
    """Return the record of a folder; None if it has no readable record, or was set aside."""
    if folder.suffix:
        return None
    try:
        with storage_errors(folder / _RECORD):
            stored = json.loads((folder / _RECORD).read_bytes())
        groups = [_Group(**group) for group in stored.pop("groups")]
        return _Record(**stored, groups=groups) if np.dtype(stored["kind"]).kind in "fi" else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _is_intact(folder: Path, record: _Record) -> bool:
    """Return whether the bytes of every group are as written; a damaged record matches no bytes."""
    try:
        with storage_errors(folder):
            for name in record.groups[0].sha256:
                with (folder / f"{name}.bin").open("rb") as file:
                    for group in record.groups:
                        if _sha256(file, record.bytes_of(name, group)) != group.sha256[name]:
                            return False
    except (FileNotFoundError, KeyError, IndexError):
        return False
    return True


def _sha256(file: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    while size > 0 and (block := file.read(min(size, 1 << 20))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest() if size == 0 else ""


def _append(folder: Path, record: _Record | None, parts: Sequence[Path]) -> _Record:
    """Append groups of parts to those of the record, overwriting bytes that a killed process left there."""
    for parts_of_group in _grouped(parts):
        keys, lengths, values = _sorted_rows(pa.concat_tables([read_part(part) for part in parts_of_group]))
        if record is None:
            record = _Record(values.dtype.name, values.shape[1], [])
        columns = {"keys": keys, "values": values, **({} if lengths is None else {"lengths": lengths})}
        sha256 = {}
        for name, column in columns.items():
            start = sum(record.bytes_of(name, group) for group in record.groups)
            sha256[name] = _write(folder / f"{name}.bin", start, column)
        group = _Group([part.name for part in parts_of_group], len(keys), len(values), sha256)
        record = _Record(record.kind, record.dim, [*record.groups, group])
    assert record is not None  # there is a part
    write_text(folder / _RECORD, json.dumps(asdict(record)) + "\n")
    return record


def _grouped(parts: Sequence[Path]) -> Iterator[list[Path]]:
    group: list[Path] = []
    size = 0
    for part in parts:
        size += (part_size := fetch(part).stat().st_size)
        if group and size > GROUP_BYTES:
            yield group
            group, size = [], part_size
        group.append(part)
    yield group


def _write(path: Path, start: int, column: np.ndarray) -> str:
    data = np.ascontiguousarray(column).reshape(-1).view(np.uint8).data
    with storage_errors(path), path.open("r+b" if path.exists() else "wb") as file:
        file.seek(start)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def _mapped(folder: Path, record: _Record, name: str) -> VectorTable | StateTable:
    # Copy on write: torch does not accept read-only memory, and the file must not change.
    texts, rows = (sum(getattr(group, name) for group in record.groups) for name in ("texts", "rows"))
    keys = np.memmap(folder / "keys.bin", KEY, "c", shape=(texts,))
    values = np.memmap(folder / "values.bin", record.kind, "c", shape=(rows, record.dim))
    offsets = order = None
    if "lengths" in record.groups[0].sha256:
        lengths = np.memmap(folder / "lengths.bin", _LENGTH, "c", shape=(texts,))
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if len(record.groups) > 1:
        # Merge the sorted groups; equal keys stay in the order in which they were stored.
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        is_first = np.concatenate([[True], keys[1:] != keys[:-1]])
        keys, order = (keys, order) if is_first.all() else (keys[is_first], order[is_first])
    return VectorTable(name, keys, values, order) if offsets is None else StateTable(name, keys, values, offsets, order)


def read_part(part: Path, columns: list[str] | None = None) -> pa.Table:
    return read_parquet(part, "Materialise the embeddings again: only its texts are encoded", columns)


def _sorted_rows(table: pa.Table) -> tuple[np.ndarray, Int[np.ndarray, " texts"] | None, Num[np.ndarray, "rows dim"]]:
    """Return distinct sorted keys, the number of rows of each text (None: one), and the rows, without repeats."""
    keys, first = np.unique(keys_array(table["text_key"]), return_index=True)
    column = table.column(1)
    vectors = [chunk if pa.types.is_fixed_size_list(chunk.type) else chunk.flatten() for chunk in column.chunks]
    dim = vectors[0].type.list_size
    values = np.concatenate([chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, dim) for chunk in vectors])
    if pa.types.is_fixed_size_list(column.type):
        return keys, None, values[first]
    lengths = np.concatenate([chunk.value_lengths().to_numpy() for chunk in column.chunks]).astype(np.int64)
    starts, kept = (np.cumsum(lengths) - lengths)[first], lengths[first]
    # For each row of a text: its number within the text, and the first row of that text.
    within = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
    return keys, kept.astype(_LENGTH), values[np.repeat(starts, kept) + within]

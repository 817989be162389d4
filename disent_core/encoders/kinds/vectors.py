"""Vectors that another program has computed: LASER, LaBSE, an API, or anything else.

`path` is a file, a folder, or a pattern in which `{language}` stands for the language. A `.parquet` or `.jsonl` file
has a column `vector` and a column `text` or `text_key`, and may have a column `language`. A matrix `NAME.npy` has its
texts beside it in `NAME.txt`, one per line. Rows and lines are counted from 1.

No Python object is made per text. A matrix is memory-mapped; vectors from other files are held in memory as float32.
"""

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from jaxtyping import Float, Float32, Int

from disent_core.encoders.contract import Device, EncodedBatch, EncoderConfig, FloatName, StatesName
from disent_core.errors import EncoderError, commas, located, quoted
from disent_core.storage.results import sha256_of
from disent_core.storage.tables import fingerprint
from disent_core.storage.text_columns import TextCollector, blocks, first_repeated, key_strings
from disent_core.storage.untrusted import column_names, mapped_array, untrusted_batches
from disent_core.text import parsed_json, text_keys

CODE_VERSION = "1"  # changes with every change of this code that changes vectors

_LANGUAGE = "{language}"
_BATCH_TEXTS = 8_192
_SUFFIXES = (".parquet", ".jsonl", ".npy")
_COLUMNS = {"text": pa.string(), "text_key": pa.string(), "language": pa.string(), "vector": pa.list_(pa.float64())}
_BLOCK_BYTES = 1 << 24  # bytes of a file of JSON lines that are read at once; no line may be longer


@dataclass(frozen=True, kw_only=True)
class VectorsConfig(EncoderConfig):
    """Where the vectors are stored.

    Attributes:
        path: file, folder of files, or a pattern for either that contains `{language}`.
        vector_dtype: number format of stored sentence vectors.
        saw: as in `HuggingFaceConfig`.
    """

    lacks: ClassVar[Mapping[str, str]] = {"token_states": "token states", "encoder": "a model to tune"}
    reads_one_language: ClassVar[bool] = True

    path: str
    vector_dtype: FloatName = "float32"
    saw: str | None = field(default=None, repr=False)

    def fingerprint(self, folder: Path) -> str:
        return encoder_fingerprint(self)

    def load(self, folder: Path, language: str, device: Device) -> "ImportedVectors":
        return ImportedVectors(self, language)

    def known_keys(self, language: str) -> pa.StringArray:
        return _Vectors(_read_all(self, language)).keys


def vector_files(config: VectorsConfig, language: str | None = None) -> list[Path]:
    """Return the files with vectors of a language, or of all; a column `language` may divide them further."""
    pattern = glob.escape(config.path).replace(_LANGUAGE, "*" if language is None else glob.escape(language))
    files: list[Path] = []
    for path in sorted(map(Path, glob.glob(pattern))):  # noqa: PTH207 - Path.glob takes no absolute pattern
        files += sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    return files


def encoder_fingerprint(config: VectorsConfig) -> str:
    """Return the fingerprint of the content of every file, and of how it is stored."""
    matrices_and_tables = vector_files(config)
    texts = [file.with_suffix(".txt") for file in matrices_and_tables if file.suffix == ".npy"]
    files = [file for file in (*matrices_and_tables, *texts) if file.is_file()]
    if not files:
        raise _lacking(config, config.path, "there are no vectors here")
    file_stats = [file.stat() for file in files]
    hashes = [_sha256(file, stats.st_mtime_ns, stats.st_size) for file, stats in zip(files, file_stats, strict=True)]
    if _LANGUAGE in config.path:  # then file names matter, because they contain the language
        base = Path(config.path.split(_LANGUAGE)[0] + "_").parent
        hashes = [(file.relative_to(base).as_posix(), digest) for file, digest in zip(files, hashes, strict=True)]
    return fingerprint("vectors", CODE_VERSION, sorted(hashes), config.vector_dtype)


@lru_cache(maxsize=1024)
def _sha256(file: Path, modified: int, size: int) -> str:
    """Return the hash of a file; it is read again when its time or size has changed."""
    del modified, size  # part of the key only
    return sha256_of(file)


class ImportedVectors:
    """An `Encoder` of one language that looks up vectors."""

    def __init__(self, config: VectorsConfig, language: str) -> None:
        self._config, self._language, self._path = config, language, config.path.replace(_LANGUAGE, language)
        self._vectors = _Vectors(_read_all(config, language))
        if not self._vectors.pieces:
            raise _lacking(config, self._path, f"there are no vectors of {language!r} here")
        self.name, self.dim = config.name, self._vectors.dim
        self.vector_dtype: FloatName = config.vector_dtype
        self.states_dtype: StatesName = "float32"
        self.fingerprint = encoder_fingerprint(config)

    def encode(self, texts: Sequence[str], *, states: bool) -> Iterator[EncodedBatch]:
        """See `Encoder.encode`. Before the first batch, check that every text has a vector."""
        if states and texts:
            raise EncoderError(f"encoder {self.name!r} is imported vectors, which have no token states")
        keys = pa.chunked_array((text_keys(block) for block in blocks(texts)), pa.string())
        rows = pc.index_in(keys, value_set=self._vectors.keys).fill_null(-1).to_numpy()
        if (missing := np.flatnonzero(rows < 0)).size:
            problem = f"{missing.size} of {len(texts)} texts of {self._language!r} have no vector"
            raise _lacking(self._config, self._path, f"{problem}, e.g. {quoted(texts[int(missing[0])])}")
        for start in range(0, len(rows), _BATCH_TEXTS):
            block = rows[start : start + _BATCH_TEXTS]
            indices = np.arange(start, start + len(block))
            yield EncodedBatch(indices, self._vectors.take(block), None, np.zeros(len(block), dtype=np.int64))


def _lacking(config: VectorsConfig, path: str, problem: str) -> EncoderError:
    export = f"`disent export-texts FILE --encoder {config.name} --missing`"
    steps = f"Run `disent materialize '+group:targets'`, then {export}, embed the texts that it writes"
    return EncoderError(located(path, None, problem, f"{steps}, and put their vectors here"))


# --- vectors of one language ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """Some vectors of one file: row i of the matrix is of the text with key `keys[i]`, in row `rows[i]` of the file.

    `names` identify the texts in messages. The matrix may have a float type other than float32.
    """

    file: Path
    rows: Int[np.ndarray, " texts"]
    keys: pa.ChunkedArray
    names: pa.ChunkedArray
    matrix: Float[np.ndarray, "texts dim"]

    def fault(self, index: int, problem: str, remedy: str) -> EncoderError:
        return EncoderError(located(self.file, int(self.rows[index]), problem, remedy))


class _Vectors:
    """Pieces of equal width with one vector for each of their texts."""

    def __init__(self, pieces: Iterator[_Piece]) -> None:
        self.pieces = [piece for piece in pieces if len(piece.keys)]
        self._starts = np.cumsum([0, *(len(piece.keys) for piece in self.pieces)])
        self.dim = self.pieces[0].matrix.shape[1] if self.pieces else 0
        for piece in self.pieces:
            if piece.matrix.shape[1] != self.dim:
                first = self.pieces[0].file
                problem = f"vectors have {piece.matrix.shape[1]} dimensions, and those of {first} have {self.dim}"
                raise EncoderError(located(piece.file, None, problem, "Make all with one model"))
        chunks = [chunk for piece in self.pieces for chunk in piece.keys.chunks]
        self.keys: pa.StringArray = pa.chunked_array(chunks, pa.string()).combine_chunks()
        if repeated := first_repeated(pa.chunked_array([self.keys])):
            (first, row), (piece, index) = map(self._piece_of, repeated)
            name = quoted(piece.names[index].as_py())
            problem = f"text {name} already has a vector, in {first.file}:{first.rows[row]}"
            raise piece.fault(index, problem, "Keep one of them")

    def _piece_of(self, row: int) -> tuple[_Piece, int]:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self.pieces[number], row - int(self._starts[number])

    def take(self, rows: Int[np.ndarray, " rows"]) -> Float32[np.ndarray, "rows dim"]:
        vectors = np.empty((len(rows), self.dim), dtype=np.float32)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(numbers):
            is_of_piece = numbers == number
            vectors[is_of_piece] = _float32(self.pieces[number].matrix[rows[is_of_piece] - self._starts[number]])
        return vectors


# --- files ------------------------------------------------------------------------------------------------


def _read_all(config: VectorsConfig, language: str) -> Iterator[_Piece]:
    for file in vector_files(config, language):
        pieces = [_read_matrix(file)] if file.suffix == ".npy" else list(_read_table(file, language))
        _check_finite(pieces)
        yield from pieces


def _check_finite(pieces: Sequence[_Piece]) -> None:
    bad = []
    for piece in pieces:
        for start in range(0, len(piece.matrix), _BATCH_TEXTS):
            is_finite = np.isfinite(_float32(piece.matrix[start : start + _BATCH_TEXTS])).all(axis=1)
            if not is_finite.all():
                bad.append((piece, start + int(is_finite.argmin()), int((~is_finite).sum())))
    if bad:
        (piece, index, _), count = bad[0], sum(count for _, _, count in bad)
        name = quoted(piece.names[index].as_py())
        problem = f"{count} vectors are not finite (NaN, or beyond float32); the first is that of {name}"
        raise piece.fault(index, problem, "Embed these texts again")


def _read_matrix(file: Path) -> _Piece:
    beside, collector = file.with_suffix(".txt"), TextCollector()
    try:
        matrix = mapped_array(file)
        with beside.open(encoding="utf-8") as lines:
            for line in lines:
                collector.append(line.removesuffix("\n"))
    except (OSError, ValueError) as error:
        remedy = f"Put a matrix there, and a line for each of its rows in {beside.name}"
        raise EncoderError(located(file, None, f"this matrix and its texts can't be read ({error})", remedy)) from error
    texts = collector.column()
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        problem = f"an array of shape {matrix.shape} and type {matrix.dtype}"
        raise EncoderError(located(file, None, problem, "Save a matrix of floats, one row per text"))
    if len(texts) != len(matrix):
        problem = f"{len(texts)} lines in {beside.name}, but {len(matrix)} vectors"
        raise EncoderError(located(file, None, problem, "Give each text one line and one row"))
    return _Piece(file, np.arange(1, len(texts) + 1), _keys(texts), texts, matrix)


def _keys(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the keys of texts, where a small file may repeat one long text many times."""
    encoded = texts.dictionary_encode().chunks
    return pa.chunked_array((key_strings(chunk.dictionary).take(chunk.indices) for chunk in encoded), pa.string())


def _read_table(file: Path, language: str) -> Iterator[_Piece]:
    """Read JSON lines or Parquet, a piece for some thousand rows."""
    first, width, is_json = 1, 0, file.suffix == ".jsonl"
    try:
        for batch in _line_batches(file) if is_json else untrusted_batches(file, _COLUMNS):
            rows = np.arange(first, first + len(batch))
            first += len(batch)
            piece = _piece(pa.Table.from_batches([batch]), rows, file, language, width)
            if len(piece.keys):
                width = piece.matrix.shape[1]
                yield piece
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"this can't be read as {'JSON lines' if is_json else 'Parquet'} ({error})"
        raise EncoderError(located(file, None, problem, "Write the file again")) from error


def _line_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Read JSON lines: the columns of the first line, with their required types."""
    with file.open(encoding="utf-8") as lines:
        first = parsed_json(lines.readline(_BLOCK_BYTES) or "{}")
    if not isinstance(first, dict):
        raise ValueError("a line must be an object")
    schema = pa.schema([(name, kind) for name, kind in _COLUMNS.items() if name in first])
    return pyarrow.json.open_json(
        file,
        read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _piece(table: pa.Table, rows: Int[np.ndarray, " rows"], file: Path, language: str, width: int) -> _Piece:
    """Select rows of the language; vectors must have this width or, if it is 0, any common width."""
    column = next((name for name in ("text", "text_key") if name in table.column_names), None)
    if column is None or "vector" not in table.column_names:
        names = table.column_names if file.suffix == ".jsonl" else column_names(file)
        raise EncoderError(located(file, None, f"it has {commas(names)}", "Name them vector, and text or text_key"))
    if "language" in table.column_names:
        is_language = pc.equal(_strings(table, "language", file), language).fill_null(False)
        rows, table = rows[is_language.to_numpy(False)], table.filter(is_language)
    names = _strings(table, column, file)
    if names.null_count:
        row = int(rows[pc.index(names.is_null(), True).as_py()])
        raise EncoderError(located(file, row, f"{column} is null", "Give it a value, or drop the row"))
    keys = _keys(names) if column == "text" else names
    return _Piece(file, rows, keys, names, _matrix(table["vector"], rows, file, width))


def _strings(table: pa.Table, name: str, file: Path) -> pa.ChunkedArray:
    kind = table[name].type
    try:
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ValueError(f"type {kind}")
        strings = table[name].cast(pa.string())
        strings.validate(full=True)  # Parquet may hold text that is not UTF-8
    except (pa.ArrowException, ValueError) as error:
        raise EncoderError(
            located(file, None, f"the column {name} is not text ({error})", "Write text as UTF-8")
        ) from error
    return strings


def _matrix(
    column: pa.ChunkedArray, rows: Int[np.ndarray, " rows"], file: Path, width: int
) -> Float32[np.ndarray, "rows dim"]:
    """Convert a column of lists of equal length, which is `width` if already known."""
    array = column.combine_chunks()
    kind = array.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not pa.types.is_floating(kind.value_type):
        raise EncoderError(located(file, None, f"vector has type {kind}", "Write lists of floats"))
    widths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(False)
    width = width or (int(widths[0]) if len(widths) else 0)
    bad_rows = np.flatnonzero((widths != width) | (widths == 0))
    if bad_rows.size:
        row = int(bad_rows[0])
        problem = f"a vector of {widths[row]} dimensions, where the first has {width}"
        raise EncoderError(located(file, int(rows[row]), problem, "Make all with one model"))
    flat = pc.list_flatten(array).to_numpy(zero_copy_only=False)
    return _float32(flat.reshape(len(array), -1) if len(array) else np.zeros((0, 0)))


def _float32(matrix: np.ndarray) -> Float32[np.ndarray, "rows dim"]:
    with np.errstate(over="ignore"):  # overflow becomes infinite, which is refused later
        return np.ascontiguousarray(matrix, dtype=np.float32)

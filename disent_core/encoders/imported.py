"""Use vectors that another program has computed as an encoder: LASER, LaBSE, an API, or anything else.

`path` is a file, a folder, or a pattern in which `{language}` stands for the language. A `.parquet` or `.jsonl` file
has a column `vector` and a column `text` or `text_key`, and may have a column `language`. A matrix `NAME.npy` has its
texts beside it in `NAME.txt`, one a line. Rows and lines are counted from 1.
"""

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from jaxtyping import Float32, Int

from disent_core.encoders.config import VectorsConfig
from disent_core.encoders.contract import EncodedBatch, FloatName
from disent_core.errors import EncoderError, located, quoted
from disent_core.storage.checksums import sha256_of
from disent_core.storage.foreign import column_names, read_foreign_parquet
from disent_core.storage.tables import fingerprint
from disent_core.text import parsed_json, text_key, text_keys

CODE_VERSION = "1"
"""Changes with every change of this code that changes vectors."""

_LANGUAGE = "{language}"
_BATCH_TEXTS = 8_192
_SUFFIXES = (".parquet", ".jsonl", ".npy")
_COLUMNS = {"text": pa.string(), "text_key": pa.string(), "language": pa.string(), "vector": pa.list_(pa.float64())}
_BLOCK_BYTES = 1 << 24
"""Bytes of a file of JSON lines that are read at once; no line may be longer."""


def load(config: VectorsConfig, language: str) -> "ImportedVectors":
    """Load the vectors of one language.

    Raises:
        EncoderError: if there are none, or they are not one finite vector of one width for each text; names file
            and row.
    """
    vectors = _open(config, language)
    if vectors is None:
        problem = f"there are no vectors of {language!r} here"
        raise EncoderError(located(_place(config, language), None, problem, _remedy(config)))
    return ImportedVectors(config, language, vectors)


def known_keys(config: VectorsConfig, language: str) -> frozenset[str]:
    """Return the keys of the texts of a language that have a vector.

    Raises:
        EncoderError: if the files are malformed, as in `load`.
    """
    vectors = _open(config, language)
    return frozenset(() if vectors is None else vectors.keys)


def vector_files(config: VectorsConfig, language: str | None = None) -> list[Path]:
    """Return the files with vectors of a language, or of all; a column `language` may separate them further."""
    pattern = glob.escape(config.path).replace(_LANGUAGE, "*" if language is None else glob.escape(language))
    files: list[Path] = []
    for path in sorted(map(Path, glob.glob(pattern))):  # noqa: PTH207 - Path.glob takes no absolute pattern
        files += sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    return files


def encoder_fingerprint(config: VectorsConfig) -> str:
    """Fingerprint of the content of every file, and of how it is stored.

    Raises:
        EncoderError: if there are no files.
    """
    files = vector_files(config)
    if not files:
        raise EncoderError(located(config.path, None, "there are no vectors here", _remedy(config)))
    all_files = [file for vector_file in files for file in (vector_file, *_texts_of(vector_file)) if file.is_file()]
    stamps = [file.stat() for file in all_files]
    hashes = [_sha256(file, stamp.st_mtime_ns, stamp.st_size) for file, stamp in zip(all_files, stamps, strict=True)]
    if _LANGUAGE in config.path:  # then file names matter: they tell the language
        base = Path(config.path.split(_LANGUAGE)[0] + "_").parent
        hashes = [(file.relative_to(base).as_posix(), digest) for file, digest in zip(all_files, hashes, strict=True)]
    return fingerprint("vectors", CODE_VERSION, sorted(hashes), config.vector_dtype)


@lru_cache(maxsize=1024)
def _sha256(file: Path, modified: int, size: int) -> str:
    """Hash of a file; it is read again when its time or size has changed."""
    del modified, size  # part of the key only
    return sha256_of(file)


class ImportedVectors:
    """An `Encoder` of one language that looks vectors up; make one with `load`."""

    def __init__(self, config: VectorsConfig, language: str, vectors: "_Vectors") -> None:
        self._config, self._language, self._matrix = config, language, vectors.matrix
        self.rows: Mapping[str, int] = {key: row for row, key in enumerate(vectors.keys)}
        self.name, self.dim = config.name, int(vectors.matrix.shape[1])
        self.vector_dtype: FloatName = config.vector_dtype
        self.states_dtype: FloatName = "float32"
        self.fingerprint = encoder_fingerprint(config)

    def encode(self, texts: Sequence[str], *, states: bool) -> Iterator[EncodedBatch]:
        """See `Encoder.encode`.

        Raises:
            EncoderError: if a text has no vector, which is checked before the first batch, or if `states` is true.
        """
        if states and texts:
            raise EncoderError(f"encoder {self.name!r} is imported vectors, which have no token states")
        rows = np.array([self.rows.get(text_key(text), -1) for text in texts], dtype=np.int64)
        if (missing := np.flatnonzero(rows < 0)).size:
            problem = f"{missing.size} of {len(texts)} texts of {self._language!r} have no vector"
            example = f", e.g. {quoted(texts[int(missing[0])])}"
            raise EncoderError(
                located(_place(self._config, self._language), None, problem + example, _remedy(self._config))
            )
        for start in range(0, len(rows), _BATCH_TEXTS):
            block = rows[start : start + _BATCH_TEXTS]
            indices = np.arange(start, start + len(block))
            yield EncodedBatch(indices, self._matrix[block], None, np.zeros(len(block), dtype=np.int64))


def _place(config: VectorsConfig, language: str) -> str:
    return config.path.replace(_LANGUAGE, language)


def _remedy(config: VectorsConfig) -> str:
    commands = f"`disent materialize '+group:targets'`, then `disent texts FILE --encoder {config.name} --missing`"
    return f"Run {commands}, embed the texts that it writes, and put their vectors here"


# --- files ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Vectors:
    """Vectors of one language from some files: row i is that of the text of `keys[i]`.

    `places` are file and row, `names` the name of the text in messages.
    """

    keys: Sequence[str]
    names: Sequence[str]
    places: Sequence[tuple[Path, int]]
    matrix: Float32[np.ndarray, "texts dim"]


def _open(config: VectorsConfig, language: str) -> _Vectors | None:
    """Read all vectors of a language, of one width and without repeated texts; None if there are none."""
    of_files = [_read(file, language) for file in vector_files(config, language)]
    of_files = [vectors for vectors in of_files if vectors.keys]
    return _joined(of_files) if of_files else None


def _joined(of_files: Sequence[_Vectors]) -> _Vectors:
    for vectors in of_files[1:]:
        widths = [file_vectors.matrix.shape[1] for file_vectors in (vectors, of_files[0])]
        if widths[0] != widths[1]:
            problem = f"vectors have {widths[0]} dimensions, and those of {of_files[0].places[0][0]} have {widths[1]}"
            raise EncoderError(located(vectors.places[0][0], None, problem, "Make all with one model"))
    places = [place for vectors in of_files for place in vectors.places]
    names = [name for vectors in of_files for name in vectors.names]
    keys = [key for vectors in of_files for key in vectors.keys]
    row_of_key: dict[str, int] = {}
    for row, key in enumerate(keys):
        if (first_row := row_of_key.setdefault(key, row)) != row:
            problem = (
                f"text {quoted(names[row])} has a vector already, in {places[first_row][0]}:{places[first_row][1]}"
            )
            raise EncoderError(located(*places[row], problem, "Keep one of them"))
    return _Vectors(keys, names, places, np.concatenate([vectors.matrix for vectors in of_files]))


def _read(file: Path, language: str) -> _Vectors:
    vectors = _read_matrix(file) if file.suffix == ".npy" else _of_table(_read_table(file), file, language)
    bad_rows = np.flatnonzero(~np.isfinite(vectors.matrix).all(axis=1))
    if bad_rows.size:
        row = int(bad_rows[0])
        problem = (
            f"{bad_rows.size} vectors are not finite (NaN, or beyond float32), "
            f"first that of {quoted(vectors.names[row])}"
        )
        raise EncoderError(located(*vectors.places[row], problem, "Embed these texts again"))
    return vectors


def _texts_of(file: Path) -> list[Path]:
    """Return the file with the texts of a matrix, if this is one."""
    return [file.with_suffix(".txt")] if file.suffix == ".npy" else []


def _read_matrix(file: Path) -> _Vectors:
    """Read `NAME.npy` with `NAME.txt`."""
    (beside,) = _texts_of(file)
    try:
        matrix = np.lib.format.open_memmap(
            file, mode="r"
        )  # allocates nothing for what the header claims, never unpickles
        texts = beside.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError, OverflowError, EOFError, TypeError, SyntaxError, TokenError) as error:
        remedy = f"Put a matrix there, and a line for each of its rows in {beside.name}"
        raise EncoderError(located(file, None, f"this matrix and its texts can't be read ({error})", remedy)) from error
    texts = [text.removesuffix("\r") for text in texts]
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        problem = f"an array of shape {matrix.shape} and type {matrix.dtype}"
        raise EncoderError(located(file, None, problem, "Save a matrix of floats, one row a text"))
    if len(texts) != len(matrix):
        problem = f"{len(texts)} lines in {beside.name}, and {len(matrix)} vectors"
        raise EncoderError(located(file, None, problem, "Give each text one line and one row"))
    places = [(file, row) for row in range(1, len(texts) + 1)]
    return _Vectors(_keys(texts), texts, places, _float32(matrix))


def _keys(texts: Sequence[str]) -> list[str]:
    """Keys of texts; a small file may hold one long text many times."""
    distinct = list(dict.fromkeys(texts))
    key_of_text = dict(zip(distinct, text_keys(distinct), strict=True))
    return [key_of_text[text] for text in texts]


def _read_table(file: Path) -> pa.Table:
    kind = "JSON lines" if file.suffix == ".jsonl" else "Parquet"
    try:
        return _read_lines(file) if file.suffix == ".jsonl" else read_foreign_parquet(file, _COLUMNS)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise EncoderError(located(file, None, f"no {kind} can be read ({error})", "Write the file again")) from error


def _read_lines(file: Path) -> pa.Table:
    """Read JSON lines: the columns of the first line, with their required types."""
    with file.open(encoding="utf-8") as lines:
        first = parsed_json(lines.readline(_BLOCK_BYTES) or "{}")
    if not isinstance(first, dict):
        raise ValueError("a line must be an object")
    schema = pa.schema([(name, kind) for name, kind in _COLUMNS.items() if name in first])
    return pyarrow.json.read_json(
        file,
        read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _of_table(table: pa.Table, file: Path, language: str) -> _Vectors:
    column = next((name for name in ("text", "text_key") if name in table.column_names), None)
    if column is None or "vector" not in table.column_names:
        remedy = "Name them vector, and text or text_key"
        names = table.column_names if file.suffix == ".jsonl" else column_names(file)
        raise EncoderError(located(file, None, f"the columns are {names}", remedy))
    rows = np.arange(1, len(table) + 1)
    if "language" in table.column_names:
        is_language = pc.equal(_strings(table, "language", file), language).fill_null(False)
        rows, table = rows[is_language.to_numpy(False)], table.filter(is_language)
    names = _strings(table, column, file).to_pylist()
    if None in names:
        raise EncoderError(
            located(file, int(rows[names.index(None)]), f"{column} is null", "Write it, or drop the row")
        )
    keys = _keys(names) if column == "text" else names
    return _Vectors(keys, names, [(file, row) for row in rows.tolist()], _matrix(table["vector"], rows, file))


def _strings(table: pa.Table, name: str, file: Path) -> pa.ChunkedArray:
    kind = table[name].type
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        if not (pa.types.is_string(stored) or pa.types.is_large_string(stored)):
            raise ValueError(f"type {kind}")
        strings = table[name].cast(pa.string())
        strings.validate(full=True)  # Parquet may hold text that is not UTF-8
    except (pa.ArrowException, ValueError) as error:
        raise EncoderError(located(file, None, f"{name} is no text ({error})", "Write text as UTF-8")) from error
    return strings


def _matrix(column: pa.ChunkedArray, rows: Int[np.ndarray, " rows"], file: Path) -> Float32[np.ndarray, "rows dim"]:
    """Convert a column of lists of one length."""
    array = column.combine_chunks()
    kind = array.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not pa.types.is_floating(kind.value_type):
        raise EncoderError(located(file, None, f"vector has type {kind}", "Write lists of floats"))
    widths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(False)
    bad_rows = np.flatnonzero(widths != (widths[0] if len(widths) else 0))
    if bad_rows.size or (len(widths) and not widths[0]):
        row = int(bad_rows[0]) if bad_rows.size else 0
        problem = f"a vector of {widths[row]} dimensions, where the first has {widths[0]}"
        raise EncoderError(located(file, int(rows[row]), problem, "Make all with one model"))
    flat = pc.list_flatten(array).to_numpy(zero_copy_only=False)
    return _float32(flat.reshape(len(array), -1) if len(array) else np.zeros((0, 0)))


def _float32(matrix: np.ndarray) -> Float32[np.ndarray, "rows dim"]:
    with np.errstate(over="ignore"):  # overflow becomes infinite, which is refused later
        return np.ascontiguousarray(matrix, dtype=np.float32)

"""Write and read the folder of a static model: `model.safetensors`, `model.json` and a card, `README.md`.

`model.json` describes the model and has the checksum of the weights; a reader checks it and every shape before it
allocates memory for them. Nothing in a folder is code.

Its `description` may have `name`, `method`, `licence`, `attribution` (whom the licence of the data requires to be
named), `data` (each corpus with its fingerprint), `settings`, `measured` (a table, as a list of rows) and
`measured_packed` (such a table for exactly these weights); all of it is JSON.
"""

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from disent_core.embedding_names import plain_word, without_slots
from disent_core.errors import DamagedError, TrainingError, located, quoted
from disent_core.text import parsed_json

WEIGHTS, RECORD, CARD = "model.safetensors", "model.json", "README.md"
FORMAT, VERSION = "disent-static-model", 1
_MOST_ROWS, _MOST_WIDTH, _MOST_RECORD = 1 << 26, 1 << 14, 1 << 24  # rows of a table, units of a part, bytes of a record


def no_model(path: Path) -> TrainingError:
    """Return the error for a path without a model of any kind."""
    problem = "no trained head at this path" if path.exists() else "there is no such file"
    remedy = "Name the .safetensors file of a trained head, an exported folder, or the folder of a static model "
    remedy += "(not its weights alone); commands also take METHOD@ENCODER:PAIR, such as facet@scratch:en-de"
    return TrainingError(located(path, None, problem, remedy))


@dataclass(frozen=True)
class Header:
    """What a static model is, without its weights.

    Attributes:
        parts: width of each part, in order; at least one.
        bits: bits per stored value, 4 or 8.
        known: number of rows that are stored.
        table_rows: number of rows that words are hashed to.
        seed: seed of the rows that are not stored.
        unseen: norm of the rows that are not stored.
        languages: languages of the training texts.
        description: see the module.
    """

    parts: Mapping[str, int]
    bits: int
    known: int
    table_rows: int
    seed: int
    unseen: float
    languages: tuple[str, ...]
    description: Mapping[str, Any]

    @property
    def dim(self) -> int:
        """Units of all parts."""
        return sum(self.parts.values())

    @property
    def named_parts(self) -> dict[str, int]:
        """Parts that are embeddings; a name with a leading _ marks a part that has learned nothing of its own."""
        return {name: width for name, width in self.parts.items() if not name.startswith("_")}

    def check(self) -> None:
        """Raise ValueError, naming the value, if the header is not that of a model."""
        _require_number("table_rows", self.table_rows, 1, _MOST_ROWS)
        _require_number("known", self.known, 0, self.table_rows)
        _require_number("seed", self.seed, 0, 1 << 63)
        if not self.parts or "meaning" in self.parts:
            raise ValueError(f"parts must name at least one part, none of them 'meaning', got {quoted(self.parts)}")
        for name, width in self.parts.items():
            _require_number(f"the width of {name!r}", width, 1, _MOST_WIDTH)
        if self.bits not in (4, 8):
            raise ValueError(f"bits must be 4 or 8, got {self.bits}")
        if not (math.isfinite(self.unseen) and self.unseen >= 0):
            raise ValueError(f"unseen must be a number >= 0, got {self.unseen}")

    @property
    def tensors(self) -> dict[str, tuple[str, list[int]]]:
        """Return name -> type and shape of each stored tensor; `known` has a bit for each row of the table."""
        values = ("U8", -(-self.dim // 2)) if self.bits == 4 else ("I8", self.dim)
        return {
            "known": ("U8", [-(-self.table_rows // 8)]),
            "rows": (values[0], [self.known, values[1]]),
            "scales": ("F16", [self.known]),
        }


_JSON = {
    "parts": (dict, "a table of widths"),
    "bits": (int, "a whole number"),
    "known": (int, "a whole number"),
    "table_rows": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "unseen": (int | float, "a number"),
    "languages": (list, "a list of codes"),
    "description": (dict, "a table"),
}
"""Type of each value of a header in JSON, and its description."""


def _require_number(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most:,}, got {quoted(value)}")


# --- reading ----------------------------------------------------------------------------------------------


def is_static(folder: Path) -> bool:
    """Return whether a folder is that of a static model, judging by its record alone."""
    try:
        return _parsed(folder).get("format") == FORMAT
    except (OSError, ValueError):
        return False


def read_header(folder: Path) -> tuple[Header, Mapping[str, Any]]:
    """Read the header of a model, and the size and checksum of its weights; raise DamagedError if there is none."""
    path = folder / RECORD
    try:
        record = _parsed(folder)
        if record.get("format") != FORMAT:
            raise ValueError(f"its format is {quoted(record.get('format'))}, not {FORMAT!r}")
        if record.get("version") != VERSION:
            problem = f"this is version {quoted(record.get('version'))} of the format, but only {VERSION} can be read"
            raise DamagedError(located(path, None, problem, "Install the version of disent that wrote it"))
        absent = [name for name in (*_JSON, "weights") if name not in record]
        if absent:
            raise ValueError(f"it lacks {', '.join(absent)}")
        weights = record["weights"]
        if not isinstance(weights, dict) or not isinstance(weights.get("sha256"), str):
            raise ValueError("it has no checksum of the weights")
        _require_number("bytes of the weights", weights.get("bytes"), 0, 1 << 40)
        for name, (kind, what) in _JSON.items():
            if not isinstance(record[name], kind) or isinstance(record[name], bool):
                raise ValueError(f"{name} must be {what}, got {quoted(record[name])}")
        if not all(isinstance(language, str) for language in record["languages"]):
            raise ValueError(f"languages must be a list of codes, got {quoted(record['languages'])}")
        values = {name: record[name] for name in _JSON}
        header = Header(**values | {"languages": tuple(record["languages"]), "unseen": float(record["unseen"])})
        header.check()
    except FileNotFoundError as error:
        problem = f"this is not the folder of a static model: it has no {RECORD}"
        remedy = "Name a folder that StaticModel.save wrote; disent.models() lists those that disent comes with"
        raise DamagedError(located(folder, None, problem, remedy)) from error
    except OSError as error:
        _refuse(path, f"it can't be read ({error.strerror})", error)
    except ValueError as error:
        _refuse(path, f"this does not describe a static model: {error}", error)
    return header, weights


def _parsed(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    if path.stat().st_size > _MOST_RECORD:
        raise ValueError(f"it has more than {_MOST_RECORD >> 20} MB")
    record = parsed_json(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    return record


def read(folder: Path) -> tuple[Header, NDArray[np.int64], NDArray[Any], NDArray[np.float16], str]:
    """Read a model: its header, the numbers of its stored rows, sorted, the rows, their scales, and the checksum."""
    header, weights = read_header(folder)
    path = folder / WEIGHTS
    try:
        size = path.stat().st_size
        if size != weights["bytes"]:
            _refuse(path, f"it has {size:,} bytes where {RECORD} says {weights['bytes']:,}")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != weights["sha256"]:
                _refuse(path, f"it is not the file that was written: its SHA-256 is not the one in {RECORD}")
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}
            shapes = {name: (part.get_dtype(), list(part.get_shape())) for name, part in slices.items()}
            if shapes != header.tensors:
                _refuse(path, f"its arrays are {shapes} where {RECORD} asks for {header.tensors}")
            bits, rows, scales = (file.get_tensor(name) for name in header.tensors)
    except OSError as error:
        _refuse(path, "it is missing" if isinstance(error, FileNotFoundError) else "it can't be read", error)
    except SafetensorError as error:
        _refuse(path, f"it is not a safetensors file ({error})", error)
    known = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    if len(known) != header.known or (len(known) and known[-1] >= header.table_rows):
        _refuse(path, f"it marks {len(known):,} rows as known where {RECORD} says {header.known:,}")
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        _refuse(path, "it has scales that are not positive numbers")
    return header, known, rows, scales, weights["sha256"]


def _refuse(path: Path, problem: str, cause: Exception | None = None) -> NoReturn:
    remedy = "Copy or download the whole folder again, or make the model again"
    raise DamagedError(located(path, None, problem, remedy)) from cause


# --- writing ----------------------------------------------------------------------------------------------


def content_of(header: Header, known: NDArray[np.int64], rows: NDArray[Any], scales: NDArray[np.float16]) -> bytes:
    """Return the content of the weights file."""
    bits = np.zeros(8 * -(-header.table_rows // 8), dtype=np.uint8)
    bits[known] = 1
    arrays = {"known": np.packbits(bits, bitorder="little"), "rows": rows, "scales": scales}
    return save({name: np.ascontiguousarray(value) for name, value in arrays.items()})


def write(
    folder: Path, header: Header, known: NDArray[np.int64], rows: NDArray[Any], scales: NDArray[np.float16]
) -> None:
    """Write a model; replace an earlier model in the folder, and reject a folder with any other file."""
    content = content_of(header, known, rows, scales)
    with filled(folder, {WEIGHTS, RECORD, CARD}) as temporary:
        (temporary / WEIGHTS).write_bytes(content)
        checksum = {"file": WEIGHTS, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        record = {"format": FORMAT, "version": VERSION, **asdict(header), "weights": checksum}
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        (temporary / RECORD).write_text(text, encoding="utf-8")
        (temporary / CARD).write_text(card(header, len(content)), encoding="utf-8")


@contextmanager
def filled(folder: Path, names: Set[str]) -> Iterator[Path]:
    """Yield a new folder that replaces `folder` once it is filled; reject a `folder` with files of other names.

    Unlike `storage.files` this also works on Windows: it needs no POSIX locks or flushes.
    """
    if folder.exists():
        strangers = sorted({path.name for path in folder.iterdir()} - names) if folder.is_dir() else []
        if strangers or not folder.is_dir():
            what = f"the folder has other files, such as {strangers[0]}" if strangers else "this is a file"
            raise ValueError(located(folder, None, what, "Name a new folder, or one of an earlier model"))
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        for file in temporary.iterdir():
            file.chmod(0o644)
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        if folder.exists():
            earlier = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
            folder.rename(earlier / folder.name)
            try:
                temporary.rename(folder)
            except OSError:
                (earlier / folder.name).rename(folder)
                raise
            finally:
                shutil.rmtree(earlier, ignore_errors=True)
        else:
            temporary.rename(folder)
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(temporary)


_MARKDOWN = re.compile(r"[\\`*\[\]<>|#&]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown reads as markup, which an underscore inside a word is not."""
_MEASURES = {
    "translation": "*translation*: how often the nearest text of the other language is the translation, over `n`\n"
    "texts of the test split; `low` and `high` are its 95 % interval.",
    "label": "*label*: how often a classifier that has learned labels in the first language is right in the second.",
    "shape": "*shape*: how often the nearest text by shape has the same words outside of slots, and the same slots.",
    "values": "*values*: how often the nearest text by values has the same values, in another shape.",
    "shape by values": "*shape by values*, *values by shape*: the same by the other part, which should find neither.",
    "language by meaning": "*language*: how often the 25 nearest texts tell which of two a text is in; chance is 0.5.",
}


def card(header: Header, size: int) -> str:
    """Return the card of a model as Markdown, headed by the metadata that the hub reads."""
    description = header.description
    name = str(description.get("name", "a static model"))
    parts = ", ".join(f"`{plain_word(part)}` ({width})" for part, width in header.named_parts.items())
    made_of = f"is made of its parts side by side: {parts}" if parts else "has no parts"
    licence = str(description.get("licence", "")).strip()
    front = {"library_name": "disent", "language": list(header.languages), "tags": ["sentence-similarity", "static"]}
    if licence:
        front["license"] = licence.lower()
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in front.items()),
        "---",
        f"# {_plain(name)}",
        "",
        f"Embeds texts by their words and the n-grams of these: {size / 1e6:.1f} MB, numpy alone, no transformer.",
        f"The `meaning` ({header.dim}) {made_of}. Languages: "
        f"{', '.join(map(_plain, header.languages)) or 'not stated'}.",
        *(() if parts else ("", f"{_plain(without_slots('This model'))}.")),
        "",
        "```python",
        "import disent",
        "",
        'model = disent.load("FOLDER")',
        f'model.encode(["wake me up at nine"])  # float32 [1, {header.dim}]',
        "```",
        "",
        "Texts in other languages are embedded too, but nothing relates their words to those of the languages above.",
    ]
    measured, packed = description.get("measured"), description.get("measured_packed")
    if measured:
        lines += ["", "## Measured", "", *_table(measured)]
    if packed:
        above = "The figures above are of the trained table, the mean where there are several seeds."
        lines += ["", f"{above} By these weights, in {header.bits} bits:", "", *_table(packed)]
    named = f"{measured}{packed}"
    lines += [line for measure, what in _MEASURES.items() if f"'{measure}'" in named for line in ("", what)]
    lines += ["", "## Licence and data", ""]
    lines += [f"Licence: {_plain(licence) or 'not stated'}."]
    if attribution := description.get("attribution"):
        lines += ["", _plain(str(attribution))]
    facts = {key: description[key] for key in ("method", "data", "settings") if key in description}
    facts |= {"bits": header.bits, "known rows": header.known, "table rows": header.table_rows}
    facts |= {"seed of unseen rows": header.seed, "norm of unseen rows": header.unseen}
    indented = json.dumps(facts, indent=2, ensure_ascii=False).splitlines()
    return "\n".join([*lines, "", "## How it was made", "", *(f"    {line}" for line in indented)]) + "\n"


def _table(rows: Any) -> list[str]:
    """Return rows as a Markdown table; anything but a list of mappings as JSON."""
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        return [f"    {line}" for line in json.dumps(rows, indent=2, ensure_ascii=False).splitlines()]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    body = [[_plain(_shown(column, row.get(column, ""))) for column in columns] for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in (list(map(_plain, columns)), ["---"] * len(columns), *body)]


def _shown(column: str, value: object) -> str:
    if column == "embedding":
        return plain_word(str(value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _plain(text: str) -> str:
    """Return a text as one line that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(str(text).split()))

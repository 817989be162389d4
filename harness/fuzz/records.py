"""Untrusted heads: exported folders, head files and indexes whose records are changed and signed again.

Whoever changes a record can also rewrite its checksums, so most of these inputs have correct ones.
"""

import contextlib
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import disent
from disent.model import load_head
from disent_core.errors import DisentError
from disent_core.export.saved_folder import RECORD, checksum

from .mutate import Files, mutated

STRANGE = ("this", "idlelib.idle")
"""Installed modules that nothing imports."""
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 3, 17, 10**9, 2**63, 10**40, 0.5, -1e300, [], {}, [[]], [1], ["en"], {"a": 1},
    "", ".", "..", "../x", "/etc/passwd", "package:this/x", "\x00", "\x1b[2J", "A" * 300, "A" * 5_000,
    "huggingface", "vectors", "words", "mean", "pooler", "float64", "load", "en", *("facet", "emu", "twosl", "raw"),
    *STRANGE, *(f"{module}:METHOD" for module in STRANGE),
)  # fmt: skip
HEAD = "heads/tiny/emu/en-de.safetensors"


class Made(Mapping[str, bytes]):
    """The files of a folder, which a function creates on first access."""

    def __init__(self, make: Callable[[Path], Any], first: str) -> None:
        self._make, self._first = make, first

    @cached_property
    def _files(self) -> Files:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._make(folder)
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        return {self._first: files[self._first], **files}

    def __getitem__(self, name: str) -> bytes:
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _head(case: str, folder: Path) -> Path:
    builders = str(Path(__file__).parents[2] / "tests" / "core")
    if builders not in sys.path:
        sys.path.append(builders)
    from random_heads import CASES  # pyright: ignore[reportMissingImports]

    return CASES[case](folder)


def make_folder(folder: Path) -> None:
    """Write an exported folder, `out`."""
    with tempfile.TemporaryDirectory() as elsewhere:
        disent.load(_head("dream", Path(elsewhere)), device="cpu").save(folder / "out")


def make_head(folder: Path) -> None:
    """Write a head's file, with its encoder beside it."""
    _head("emu, head", folder)


def make_index(folder: Path) -> None:
    """Write an index, `index`, by the exported folder `out`."""
    make_folder(folder)
    disent.Index.build(folder / "index", load_head(folder / "out", device="cpu"), ["toy 1", "de 4"])


# --- mutations --------------------------------------------------------------------------------------------


def _changed(value: Any, rng: random.Random) -> Any:
    """Return the JSON value with one change at any depth."""
    if isinstance(value, dict | list) and value and rng.random() < 0.93:
        value = value.copy()
        place = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if rng.random() < 0.15:
            del value[place]
        else:
            value[place] = _changed(value[place], rng)
        return value
    return rng.choice(VALUES)


def _changed_json(content: bytes, rng: random.Random) -> bytes:
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2))):
        value = _changed(value, rng)
    return json.dumps(value).encode()


def mutate_folder(files: Files, rng: random.Random) -> Files:
    """Change the record or another file, and sign the folder."""
    files, record = dict(files), f"out/{RECORD}"
    if rng.random() < 0.7:
        files[record] = _changed_json(files[record], rng)
    else:
        name = rng.choice([name for name in files if name != record and name.startswith("out/")])
        is_json = name.endswith(".json") and rng.random() < 0.7
        content = _changed_json(files[name], rng) if is_json else mutated({name: files[name]}, rng).get(name)
        files = {**files, name: content} if content is not None else files
    return files if rng.random() < 0.05 else _signed(files, record)


def _signed(files: Files, name: str) -> Files:
    record = json.loads(files[name])
    if not isinstance(record, dict):
        return files
    if isinstance(record.get("files"), dict):
        record["files"] |= {
            path: sha256(files[f"out/{path}"]).hexdigest() for path in record["files"] if f"out/{path}" in files
        }
    with contextlib.suppress(RecursionError):
        record["checksum"] = checksum(record)
    return {**files, name: json.dumps(record).encode()}


def mutate_head(files: Files, rng: random.Random) -> Files:
    """Change the metadata of the weights or their bytes, and rewrite the manifest."""
    content = files[HEAD]
    length = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    if rng.random() < 0.8:
        described = _changed_json(header["__metadata__"]["disent"].encode(), rng).decode()
        header["__metadata__"]["disent"] = described
    else:
        header = _changed(header, rng)
    written = json.dumps(header).encode()
    content = len(written).to_bytes(8, "little") + written + rest
    if rng.random() < 0.1:
        content = mutated({"a": content}, rng).get("a", b"")
    return {**files, HEAD: content, f"{HEAD}.manifest": b""}


def mutate_index(files: Files, rng: random.Random) -> Files:
    """Change the contents that the index declares, a file of a part with its checksum, or the record of its head."""
    if rng.random() < 0.2:
        return mutate_folder(files, rng)
    record = files["index/index.json"]
    if rng.random() < 0.2:
        name = rng.choice([name for name in files if name.startswith("index/part-")])
        content = mutated({name: files[name]}, rng).get(name, b"")
        record = record.replace(sha256(files[name]).hexdigest().encode(), sha256(content).hexdigest().encode())
        return {**files, name: content, "index/index.json": record}
    return {**files, "index/index.json": _changed_json(record, rng)}


# --- readers ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _nothing_imported() -> Iterator[None]:
    """Accept ValueError too, as a one-line answer; check that no module named in the record is imported."""
    try:
        yield
    except (ValueError, DisentError) as error:
        if "trust_remote_code" in str(error):
            raise AssertionError("this recommends to run code") from error
        raise DisentError(str(error)) from error
    finally:
        assert not {*STRANGE} & {*sys.modules}


def _use(model: Any) -> None:
    model.encode_all(["toy 1", "unknown"], language=model.languages[0] if model.languages else None)


def read_folder(folder: Path) -> None:
    """Open the folder and embed with it."""
    with _nothing_imported():
        _use(disent.load(folder / "out", device="cpu"))


def read_head(folder: Path) -> None:
    """Open the file, with a manifest as its maker would write it, and embed with it."""
    from disent_core.storage.results import write_result

    content = (folder / HEAD).read_bytes() if (folder / HEAD).is_file() else b""
    with write_result(folder / HEAD) as temporary:
        temporary.write_bytes(content)
    with _nothing_imported():
        _use(disent.load(folder / HEAD, device="cpu"))


def read_index(folder: Path) -> None:
    """Open the index, search it, and add a text, which reads all other vectors."""
    with _nothing_imported():
        index = disent.Index.open(folder / "index", device="cpu")
        index.search("toy 1")
        disent.Index.build(folder / "index", index.model, ["toy 9"])

"""Read and write the contents of an index: `index.json` names the head that made it and the parts that belong to it.

A part is a folder whose files never change. `index.json` is replaced as a whole after every new part, so a killed run
only loses its last part, and a search never sees half of one.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Le, MaxLen
from pydantic import TypeAdapter, ValidationError

from disent_core.errors import TableError, commas, located
from disent_core.evaluation.contract import SearchBackend
from disent_core.settings import LARGEST_RECORD, STRICT, Seed, Text
from disent_core.storage.files import storage_errors, write_text
from disent_core.storage.names import safe_part

CONTENTS = "index.json"
REMEDY = "Make the index with disent index INPUT INDEX"
_Number = Annotated[int, Ge(0), Le(1 << 40)]
_Width = Annotated[int, Ge(1), Le(1 << 20)]
_Files = Annotated[dict[Text, Text], MaxLen(1_000)]


@dataclass(frozen=True, kw_only=True)
class HeadRecord:
    """The head that made the vectors."""

    __pydantic_config__ = STRICT
    fingerprint: Text  # hash of its weights
    encoder_fingerprint: Text
    seed: Seed | None  # seed of its training; None if its method is deterministic
    name: Text  # name of its method
    encoder: Text  # empty for a static model, whose `encoder_fingerprint` stands for the rows that it does not store
    trained_on: Annotated[str, MaxLen(100_000)]  # its pair, or the languages of a static model
    places: Annotated[tuple[Text, ...], MaxLen(10)] = ()  # its file, relative to the index; empty if it has none

    @property
    def title(self) -> str:
        """`facet on minilm, en-de, seed 0`."""
        name = f"{self.name} on {self.encoder}" if self.encoder else self.name
        parts = [name, self.trained_on, "" if self.seed is None else f"seed {self.seed}"]
        return ", ".join(part for part in parts if part)

    def is_same(self, other: "HeadRecord") -> bool:
        """Return whether both give the same vectors, wherever their files are."""
        same = ("fingerprint", "encoder_fingerprint", "seed")
        return all(getattr(self, name) == getattr(other, name) for name in same)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Texts of one language that were added together."""

    __pydantic_config__ = STRICT
    number: _Number  # names its folder
    language: Text | None  # None if unknown
    rows: _Number  # number of texts
    is_loose: bool  # added since all parts of its language were last joined
    files: _Files  # SHA-256 of its files by their names


EngineChoice = SearchBackend | Literal["auto"]
"""`auto`: exact search, or a faiss index once there are so many texts that exact search is slow."""
ENGINES = ("auto", *get_args(SearchBackend))


@dataclass(frozen=True, kw_only=True)
class Approximate:
    """A faiss index for each embedding, `NAME.faiss` in a folder of its own; its results are rows."""

    __pydantic_config__ = STRICT
    number: _Number  # names its folder
    engine: SearchBackend
    parts: tuple[_Number, ...]  # numbers of the parts whose texts it has; others are searched exactly
    recall_at_10: dict[Text, float]  # share of the ten nearest texts of exact search that it finds, by embedding
    queries: _Number  # number of indexed texts on which that was measured
    effort: dict[Text, _Number]  # lists or candidates that a query visits, by embedding
    files: _Files  # SHA-256 of its files by their names

    @staticmethod
    def folder(index: Path, number: int) -> Path:
        return index / f"faiss-{number:05d}"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """All of an index."""

    __pydantic_config__ = STRICT
    format: Literal[1] = 1
    head: HeadRecord
    embeddings: Annotated[dict[Text, _Width], MaxLen(1_000)]  # width of each embedding by name
    parts: Annotated[tuple[Part, ...], MaxLen(100_000)] = ()  # in the order in which they were made
    engine: EngineChoice = "auto"  # the chosen engine
    approximate: Approximate | None = None
    noise: dict[Text, float] | None = None  # `noise.noise_levels`, measured on the texts of that time
    unmeasured: _Number = 0  # texts added since

    def __post_init__(self) -> None:
        for name in self.embeddings:
            safe_part(name)
        if self.noise is not None and self.noise.keys() != self.embeddings.keys():
            raise ValueError(f"its noise levels are of {commas(self.noise)}, its embeddings {commas(self.embeddings)}")

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def level(self) -> dict[str, float] | None:
        """Return the noise level; None if more than a tenth of the texts were added since it was measured."""
        return None if 10 * self.unmeasured > self.rows else self.noise


_ADAPTER = TypeAdapter(Contents)


def read_contents(folder: Path) -> Contents | None:
    path = folder / CONTENTS
    try:
        with storage_errors(path):
            if path.stat().st_size > LARGEST_RECORD:
                raise _refused(path, f"it has more than {LARGEST_RECORD:,} bytes")
            content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _ADAPTER.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:50] for part in first["loc"])
        raise _refused(path, f"{place}: {first['msg']}" if place else first["msg"]) from error


def _refused(path: Path, problem: str) -> TableError:
    return TableError(
        located(path, None, f"this is not the index.json of an index: {problem}", f"{REMEDY}, in a new folder")
    )


def write_contents(folder: Path, contents: Contents) -> None:
    """Replace the record of what the index contains."""
    write_text(folder / CONTENTS, json.dumps(asdict(contents), indent=1, ensure_ascii=False) + "\n")

"""Define a step of the lineage: its outputs, inputs, files, and where it computes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from disent_core.config.model import MethodConfig
from disent_core.lineage.result import Check, StepResult
from disent_core.lineage.workspace import Key

Partition = str | None
Node = tuple[Key, Partition]
"""An asset and one of its partitions."""
Dependents = Mapping[str, Iterable[str]]
"""Partition of an input -> the partitions made from it."""
Make = Callable[[str], Sequence[StepResult]]
"""Function that makes a partition (empty if there are none) unless up to date, and returns each output's result."""

SMALL, TABLES, COMPUTING, FINE_TUNING = 2, 4, 8, 16
"""GB of memory of a step that makes nothing; makes tables; encodes, trains a head or measures; trains an encoder."""

READABLE = Check("files_can_be_read", "Every language, pair or folder can be read from the files.", False)


@dataclass(frozen=True)
class Source:
    """Files from elsewhere, with a partition for each language, language pair or folder."""

    key: Key
    description: str
    partitions: tuple[str, ...]
    checks: tuple[Check, ...] = (READABLE,)


@dataclass(frozen=True)
class Read:
    """A step or source that a step reads."""

    key: Key
    dependents: Dependents | None = None
    """None if a partition depends on the one of the same name or, if the two have different partitions, on all."""


@dataclass(frozen=True)
class Output:
    """An output of a step: its file or folder `path`, if any, and its `relation` in the warehouse, if any."""

    key: Key
    description: str
    path: Path | None = None
    schema: pa.Schema | None = None
    relation: str = ""
    format: str = "parquet"


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """What makes one asset, or several at once.

    Attributes:
        version: fingerprint of the code and settings that determine the outputs.
        tables: function from a partition (empty if none) to the paths of its tables by name, the main one first.
        stored: function from a partition to the paths that must exist, if not those of the main table.
        checks: of each output.
        code: function that does the work, as `module:FUNCTION`, for readers.
        kinds: formats and programs to show in a user interface.
        on_device: whether it computes on the accelerator, if there is one.
        memory: GB that it needs.
        takes_part: whether it is made from what exists, even if some inputs are missing.
        method: method whose head or metrics it makes.
        parent_partitions: partitions of all its inputs, see `linked`.
    """

    made: tuple[Output, ...]
    version: str
    make: Make
    reads: tuple[Read, ...] = ()
    partitions: tuple[str, ...] | None = None
    tables: Callable[[str], Mapping[str, Sequence[Path]]] = lambda _: {}
    stored: Callable[[str], Sequence[Path]] | None = None
    checks: tuple[Check, ...] = ()
    code: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset({"parquet"})
    on_device: bool = False
    memory: int = TABLES
    takes_part: bool = False
    method: MethodConfig | None = None
    parent_partitions: Mapping[Key, tuple[str, ...] | None] = field(default_factory=dict, repr=False)

    @property
    def outputs(self) -> tuple[Key, ...]:
        """Keys of everything that it makes."""
        return tuple(output.key for output in self.made)

    @property
    def key(self) -> Key:
        """Key of its first output, which names the step."""
        return self.made[0].key

    @property
    def names(self) -> Sequence[Partition]:
        """Its partitions, or a single None."""
        return [None] if self.partitions is None else self.partitions

    @property
    def encoder(self) -> str:
        """Name of the encoder that it belongs to, if any."""
        return self.key[1] if len(self.key) > 2 else ""

    def files(self, partition: Partition) -> list[Path]:
        """Return the files and folders of a partition that must exist."""
        if self.stored is not None:
            return list(self.stored(partition or ""))
        return list(next(iter(self.tables(partition or "").values()), ()))

    def parents(self, partition: Partition) -> list[Node]:
        return [(read.key, name) for read in self.reads for name in self._read_of(read, partition)]

    def _read_of(self, read: Read, partition: Partition) -> Sequence[Partition]:
        names = self.parent_partitions[read.key]
        if names is None:
            return [None]
        if read.dependents is not None:
            return self._inverted[read.key].get(partition or "", [])
        return [partition] if names == self.partitions else names

    @cached_property
    def _inverted(self) -> dict[Key, dict[str, list[str]]]:
        """For inputs with a mapping: partition of the step -> partitions that it is made from."""
        inverted: dict[Key, dict[str, list[str]]] = {}
        for read in self.reads:
            of_key = inverted.setdefault(read.key, {})
            for name, dependents in (read.dependents or {}).items():
                for dependent in dependents:
                    of_key.setdefault(dependent, []).append(name)
        return inverted


def linked(steps: Iterable[Step], sources: Iterable[Source] = ()) -> tuple[Step, ...]:
    """Return the steps, each with the partitions of all its inputs."""
    listed = list(steps)
    known: dict[Key, tuple[str, ...] | None] = {source.key: source.partitions for source in sources}
    known |= {key: step.partitions for step in listed for key in step.outputs}
    return tuple(replace(step, parent_partitions={read.key: known[read.key] for read in step.reads}) for step in listed)

"""Choose where the shards of a step are computed, and keep what is computed until the step's table is there.

A *shard* is a part of the items of one step: rows, texts, candidates. The engine is set by whoever runs the step
(`sharded`) and asked by what has much to compute (`ranges`, `map_shards`). No result depends on it, to the bit, so it
is in no fingerprint. The default, `inline`, does not cut: one shard has everything, and nothing is kept.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, Literal, TypeVar

import numpy as np

from disent_core.progress import Progress
from disent_core.storage.checksums import checksummed_path, read_verified, remove_all_below, verified
from disent_core.storage.remote import RemoteHome, attach, attached

_log = logging.getLogger(__name__)

Shard = TypeVar("Shard")
Result = TypeVar("Result")
Arrays = Mapping[str, np.ndarray]
EngineName = Literal["inline", "processes", "ray"]

_LEAST_SHARDS: Mapping[EngineName, float] = {"inline": float("inf"), "processes": 2, "ray": 20}
"""Shards from which on an engine is worth its start: a shard is about a minute of one core."""


@dataclass(frozen=True)
class Engine:
    """Where shards are computed.

    Attributes:
        name: `inline` in this process, `processes` in several of this machine, `ray` on a running cluster.
        workers: how many processes; one is this process, which then works shard by shard. Only `processes` reads it.
    """

    name: EngineName = "inline"
    workers: int = 1


INLINE = Engine()


@dataclass(frozen=True)
class _Sharding:
    """An engine, and for a step with a table the folder and fingerprint of what its shards give."""

    engine: Engine = INLINE
    folder: Path | None = None
    inputs: str = ""


_CURRENT: ContextVar[_Sharding] = ContextVar("sharding", default=_Sharding())  # noqa: B039 - it is frozen


@contextmanager
def sharded(engine: Engine, folder: Path | None = None, inputs: str = "") -> Iterator[None]:
    """Compute the shards of a step with this engine.

    Args:
        engine: where.
        folder: keeps the results of shards until the step is done, so that a killed one loses shards under way only.
        inputs: fingerprint of all that these results are made from, the ranges of their shards apart.
    """
    before = _CURRENT.set(_Sharding(engine, folder, inputs))
    try:
        yield
    finally:
        _CURRENT.reset(before)
    if folder is not None:
        remove_all_below(folder)


def ranges(items: int, size: int, *, on_gpu: bool = False) -> list[range]:
    """Cut items into ranges of `size`; one range has them all where the engine would not be worth its start.

    Processes of one machine would only wait for each other's use of its GPU.
    """
    engine = _CURRENT.get().engine.name
    if items < size * _LEAST_SHARDS[engine] or (on_gpu and engine == "processes"):
        return [range(items)]
    return [range(start, min(start + size, items)) for start in range(0, items, size)]


def map_shards(work: Callable[[Shard], Result], shards: Sequence[Shard], *, on_gpu: bool = False) -> Iterator[Result]:
    """Yield `work(shard)` for each shard, in their order.

    Args:
        work: a function or object that other processes can import; what it holds is sent to each worker once.
        shards: what is sent with each call. One alone is computed here.
        on_gpu: whether `work` computes on a GPU, which Ray then gives it.

    Raises:
        ShardError: if the processes of a shard were killed again and again, or there is no cluster.
        DisentError: what `work` raises.
    """
    engine, progress = _CURRENT.get().engine, Progress(_log, len(shards), "shards")
    for done, result in enumerate(_results(work, shards, engine, on_gpu), start=1):
        progress.advance(done)
        yield result


def _results(
    work: Callable[[Shard], Result], shards: Sequence[Shard], engine: Engine, on_gpu: bool
) -> Iterator[Result]:
    if engine.name == "ray" and len(shards) > 1:
        from disent_core.shards.on_ray import on_ray

        return on_ray(_at_home(work), shards, gpus=int(on_gpu))
    if engine.name == "processes" and min(engine.workers, len(shards)) > 1:
        from disent_core.shards.processes import in_processes

        return in_processes(_at_home(work), shards, engine.workers)
    return map(work, shards)


def _at_home(work: Callable[[Shard], Result]) -> Callable[[Shard], Result]:
    """The same work in another process, which keeps results in the same buckets as this one."""
    homes = attached()
    return partial(_work_at, homes, work) if homes else work


def _work_at(homes: Sequence[RemoteHome], work: Callable[[Shard], Result], shard: Shard) -> Result:
    for home in homes:
        attach(home)
    return work(shard)


def map_kept(work: Callable[[range], Arrays], shards: Sequence[range], name: str) -> Iterator[Arrays]:
    """As `map_shards`, with arrays that are kept in the folder of the step: those that are there are not computed.

    Args:
        work: as above.
        shards: from `ranges`.
        name: of this work among others of the step.
    """
    current = _CURRENT.get()
    if current.folder is None or len(shards) < 2:
        yield from map_shards(work, shards)
        return
    kept = _Kept(work, current.folder / name, current.inputs)
    for _ in map_shards(kept, [shard for shard in shards if not kept.has(shard)]):
        pass  # the worker has stored it
    yield from map(kept.read, shards)


@dataclass(frozen=True)
class _Kept(Generic[Shard]):
    """Work that stores its results in files, each with its checksum and the fingerprint of what it was made from."""

    work: Callable[[range], Arrays]
    folder: Path
    inputs: str

    def __call__(self, shard: range) -> None:
        from safetensors.numpy import save_file

        if not self.has(shard):  # a worker that was killed may have stored it
            with checksummed_path(self._path(shard), inputs=self.inputs) as temporary:
                save_file(dict(self.work(shard)), temporary)

    def has(self, shard: range) -> bool:
        entry = verified(self._path(shard))
        return entry is not None and entry.facts["inputs"] == self.inputs

    def read(self, shard: range) -> Arrays:
        from safetensors.numpy import load

        content = read_verified(self._path(shard))
        return self.work(shard) if content is None else load(content)

    def _path(self, shard: range) -> Path:
        return self.folder / f"{shard.start}-{shard.stop}.safetensors"

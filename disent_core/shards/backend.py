"""Choose where the shards of a step are computed, and keep their results until the step's table is stored.

A *shard* is a part of the items of one step: rows, texts, candidates. The caller of the step sets the backend
(`sharded`); long computations use it (`ranges`, `map_shards`). Results are equal to the bit, so the backend is in no
fingerprint. The default, `inline`, does not split: one shard has everything, and nothing is kept.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from disent_core.progress import Progress
from disent_core.storage.remote import RemoteHome, attach, attached
from disent_core.storage.results import none_if_damaged, read_result, remove_results, verify_result, write_result

log = logging.getLogger(__name__)

Shard = TypeVar("Shard")
Result = TypeVar("Result")
Arrays = Mapping[str, np.ndarray]
BackendName = Literal["inline", "processes", "ray"]

_LEAST_SHARDS: Mapping[BackendName, float] = {"inline": float("inf"), "processes": 2, "ray": 20}
"""Least number of shards that is worth starting a backend: a shard takes one core about a minute."""


@dataclass(frozen=True)
class ShardBackend:
    """Where shards are computed."""

    # `inline` in this process, `processes` in several of this machine, `ray` on a running cluster.
    name: BackendName = "inline"
    # Number of processes; with one, this process works shard by shard. Only `processes` reads it.
    workers: int = 1


INLINE = ShardBackend()


@dataclass(frozen=True)
class _Sharding:
    """A backend and, for a step with a table, the folder and fingerprint of the results of its shards."""

    backend: ShardBackend = INLINE
    folder: Path | None = None
    inputs: str = ""


_CURRENT: ContextVar[_Sharding] = ContextVar("sharding", default=_Sharding())  # noqa: B039 - it is frozen


@contextmanager
def sharded(backend: ShardBackend, folder: Path | None = None, inputs: str = "") -> Iterator[None]:
    """Compute the shards of a step with this backend.

    The folder keeps the results of shards until the step is done, so that a killed step loses only unfinished shards;
    `inputs` is the fingerprint of all that they are made from, except their ranges.
    """
    before = _CURRENT.set(_Sharding(backend, folder, inputs))
    try:
        yield
    finally:
        _CURRENT.reset(before)
    if folder is not None:
        remove_results(folder)


def ranges(items: int, size: int, *, on_gpu: bool = False) -> list[range]:
    """Split items into ranges of `size`, or one range if they are too few to be worth starting the backend.

    Processes of one machine would only wait for each other's use of its GPU.
    """
    backend = _CURRENT.get().backend.name
    if items < size * _LEAST_SHARDS[backend] or (on_gpu and backend == "processes"):
        return [range(items)]
    return [range(start, min(start + size, items)) for start in range(0, items, size)]


def map_shards(work: Callable[[Shard], Result], shards: Sequence[Shard], *, on_gpu: bool = False) -> Iterator[Result]:
    """Yield `work(shard)` for each shard, in order; a single shard is computed in this process.

    Other processes must be able to import `work`, whose attributes are sent to each worker once. If it computes
    `on_gpu`, Ray assigns it a GPU. Raises ShardError if the processes of a shard are killed again and again.
    """
    backend, progress = _CURRENT.get().backend, Progress(log, len(shards), "shards")
    elsewhere = partial(_work_at, homes, work) if (homes := attached()) else work
    if backend.name == "ray" and len(shards) > 1:
        from disent_core.shards.on_ray import on_ray

        results = on_ray(elsewhere, shards, gpus=int(on_gpu))
    elif backend.name == "processes" and min(backend.workers, len(shards)) > 1:
        from disent_core.shards.processes import in_processes

        results = in_processes(elsewhere, shards, backend.workers)
    else:
        results = map(work, shards)
    for done, result in enumerate(results, start=1):
        progress.advance(done)
        yield result


def _work_at(homes: Sequence[RemoteHome], work: Callable[[Shard], Result], shard: Shard) -> Result:
    """Work in another process that keeps results in the same buckets as this one."""
    for home in homes:
        attach(home)
    return work(shard)


def map_kept(work: Callable[[range], Arrays], shards: Sequence[range], name: str) -> Iterator[Arrays]:
    """Do what `map_shards` does, but keep arrays in the step's folder, and reuse those that are there."""
    current = _CURRENT.get()
    if current.folder is None or len(shards) < 2:
        yield from map_shards(work, shards)
        return
    kept = _Kept(work, current.folder / name, current.inputs)
    for _ in map_shards(kept, [shard for shard in shards if not kept.has(shard)]):
        pass  # the worker has stored it
    yield from map(kept.read, shards)


@dataclass(frozen=True)
class _Kept:
    """Work that stores its results in files, each with its checksum and the fingerprint of its inputs."""

    work: Callable[[range], Arrays]
    folder: Path
    inputs: str

    def __call__(self, shard: range) -> None:
        from safetensors.numpy import save_file  # noqa: TID251 - inside write_result

        if not self.has(shard):  # a killed worker may have stored it
            with write_result(self._path(shard), inputs=self.inputs) as temporary:
                save_file(dict(self.work(shard)), temporary)

    def has(self, shard: range) -> bool:
        entry = none_if_damaged(lambda: verify_result(self._path(shard)))
        return entry is not None and entry.facts["inputs"] == self.inputs

    def read(self, shard: range) -> Arrays:
        from safetensors.numpy import load

        content = read_result(self._path(shard))
        return self.work(shard) if content is None else load(content)

    def _path(self, shard: range) -> Path:
        return self.folder / f"{shard.start}-{shard.stop}.safetensors"

"""Compute shards on a running Ray cluster. None is started here: Ray listens on every interface."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from disent_core.errors import DisentError, ShardError

log = logging.getLogger(__name__)

Shard = TypeVar("Shard")
Result = TypeVar("Result")


def on_ray(work: Callable[[Shard], Result], shards: Sequence[Shard], *, gpus: int = 0) -> Iterator[Result]:
    """Yield `work(shard)` for each shard, in order; Ray recomputes the shards of a lost node or worker.

    The work is put into the memory of each node once, and each shard is a task with one processor and `gpus` GPUs.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
        from ray.exceptions import RayError, RayTaskError  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ShardError("DISENT_SHARDS=ray needs Ray: pip install 'disent-embeddings[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False, logging_level=logging.WARNING)
        except ConnectionError as error:
            needed = "a running cluster: set RAY_ADDRESS, or run on one of its nodes"
            raise ShardError(f"DISENT_SHARDS=ray needs {needed}") from error
    free = ray.available_resources()
    if free.get("CPU", 0) < 1 or free.get("GPU", 0) < gpus:
        # The step itself may hold the only processor or GPU, and its shards would wait for it.
        log.info("the Ray cluster has no free resources: the step computes its shards itself")
        yield from map(work, shards)
        return
    task = ray.remote(_compute).options(num_gpus=gpus, scheduling_strategy="SPREAD")
    shared = [ray.put(work)]  # in a list, Ray leaves it where it is
    results = [task.remote(shared, shard) for shard in shards]
    try:
        for result in results:
            yield ray.get(result)
    except RayTaskError as error:
        if isinstance(error.cause, DisentError):
            raise error.cause from error
        raise
    except RayError as error:
        raise ShardError(f"Ray could not compute a shard: {type(error).__name__}") from error
    finally:
        _, unfinished = ray.wait(results, num_returns=len(results), timeout=0)
        for result in unfinished:  # a shard failed, or the caller stopped
            ray.cancel(result)  # by force, or if it is finished, may end this process: Ray 2.60, task_manager.cc:1329


def _compute(shared: list[Any], shard: Any) -> Any:
    return _work(shared[0])(shard)


@lru_cache(maxsize=1)
def _work(reference: Any) -> Callable[[Any], Any]:
    """Return the work of this worker's shards, which loads its encoder once."""
    import ray  # pyright: ignore[reportMissingImports]

    return ray.get(reference)

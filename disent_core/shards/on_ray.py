"""Compute shards on a Ray cluster that is running. Nothing here starts one: Ray listens on every interface."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from disent_core.errors import DisentError, ShardError

Shard = TypeVar("Shard")
Result = TypeVar("Result")

_NO_RAY = "DISENT_SHARDS=ray needs Ray: pip install 'disent[ray]'"
_NO_CLUSTER = "DISENT_SHARDS=ray needs a running cluster: set RAY_ADDRESS, or run on one of its nodes"


def on_ray(work: Callable[[Shard], Result], shards: Sequence[Shard]) -> Iterator[Result]:
    """Yield `work(shard)` for each shard, in their order; Ray computes a shard of a lost node or worker again.

    Raises:
        ShardError: if Ray is not installed, there is no cluster, or a shard was lost again and again.
        DisentError: what `work` raises.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
        from ray.exceptions import RayError, RayTaskError  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ShardError(_NO_RAY) from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError as error:
            raise ShardError(_NO_CLUSTER) from error
    shared = ray.put(work)  # its arrays are in the memory of each node once
    results = [ray.remote(_compute).options(scheduling_strategy="SPREAD").remote(shared, shard) for shard in shards]
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
        for result in results:
            ray.cancel(result, force=True)


def _compute(work: Callable[[Any], Any], shard: Any) -> Any:
    return work(shard)

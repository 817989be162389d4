"""Time both sides on a device, and one side's matrix products alone."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "_linear_pointwise")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: what is measured.
        ours: our seconds; None if nothing is timed.
        peer: seconds of the peer named in `note`.
        rate: our throughput per second, with its unit.
        limit: share of the limit that we reach: seconds of the bare matrix products over ours.
        apart: distance of our result from the CPU's in float32.
        tolerance: largest `apart` that passes.
        note: the peer, and what else is worth knowing.
    """

    what: str
    ours: float | None = None
    peer: float | None = None
    rate: str = ""
    limit: float | None = None
    apart: float | None = None
    tolerance: float | None = None
    note: str = ""

    @property
    def passes(self) -> bool:
        """Whether the result equals the CPU's within the tolerance."""
        return self.apart is None or self.tolerance is None or self.apart <= self.tolerance

    def cells(self) -> list[str]:
        """Return the cells of the Markdown table."""
        times = "" if not self.ours or self.peer is None else f"{self.peer / self.ours:.2f}"
        limit = "" if self.limit is None else f"{self.limit:.0%}"
        apart = (
            "" if self.apart is None else f"{self.apart:.1e} of {self.tolerance:.0e}{'' if self.passes else ' **!**'}"
        )
        return [self.what, *map(_seconds, (self.ours, self.peer)), times, self.rate, limit, apart, self.note]

    def described(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return {**asdict(self), "passes": self.passes}


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def table(rows: Iterable[Row]) -> str:
    """Return the rows as Markdown."""
    head = ["what", "ours, s", "peer, s", "times faster", "rate", "share of the bare products", "from the CPU", "note"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def wait(device: str) -> None:
    """Wait until the device has finished all queued work."""
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(run: Callable[[], object], device: str) -> float:
    """Return wall-clock seconds until the device has finished."""
    wait(device)
    started = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - started


def in_turns(ours: Callable[[], object], peer: Callable[[], object], device: str, repeats: int) -> tuple[float, float]:
    """Return the median seconds of both sides, which take turns after one warm-up run each."""
    took: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for run, measured in zip((ours, peer), took, strict=True):
            of_run = seconds(run, device)
            if repeat:
                measured.append(of_run)
    return median(took[0]), median(took[1])


def epochs_in_turns(ours: Iterator[float], peer: Iterator[float]) -> tuple[float, float]:
    """Return the median seconds per epoch of both sides, without the first epoch unless it is the only one."""
    of_epochs = [(of_ours, next(peer)) for of_ours in ours]
    later = of_epochs[1:] or of_epochs
    return median(ours for ours, _ in later), median(peer for _, peer in later)


# --- bare products ----------------------------------------------------------------------------------------


class Products(TorchDispatchMode):
    """Counts the matrix products that run inside it, by operation, shape and number format."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.calls: dict[str, tuple[Any, list[Any]]] = {}
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it if it is a product; decompose composite operations."""
        name = func._schema.name.split("::")[1]
        if name not in PRODUCTS:
            with self:  # in inference mode, linear maps arrive undecomposed
                parts = func.decompose(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {})) if parts is NotImplemented else parts
        described = [(arg.shape, arg.stride(), arg.dtype) if isinstance(arg, Tensor) else arg for arg in args]
        key = f"{name} {described}"
        self.counts[key] += 1
        self.calls.setdefault(key, (func, described))
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func.overloadpacket)
        if count is not None:
            self.operations += count(*args, **(kwargs or {}), out_val=result)
        return result

    def seconds_alone(self, device: str) -> float:
        """Return the seconds of the counted products, each repeated on its own random matrices."""
        return sum(count * _alone(*self.calls[key], device) for key, count in self.counts.items())


def _alone(func: Any, described: list[Any], device: str) -> float:
    """Return the seconds of one product, from many that are queued at once."""
    args = [random_matrix(*arg, device) if isinstance(arg, tuple) else arg for arg in described]
    times = 20 if device == "cuda" else 1

    def run() -> None:
        for _ in range(times):
            func(*args)

    run()
    return min(seconds(run, device) for _ in range(3)) / times


def random_matrix(shape: torch.Size, stride: tuple[int, ...], kind: torch.dtype, device: str) -> Tensor:
    """Return a random matrix for timing a product alone."""
    values = torch.randn(shape, device=device)
    if 0 in stride:  # weights that oneDNN has packed have no strides of their own
        return values.to(kind)
    return torch.empty_strided(shape, stride, dtype=kind, device=device).copy_(values)


def recorded(run: Callable[[], object]) -> Products:
    """Return the products of one run."""
    products = Products()
    with products:
        run()
    return products

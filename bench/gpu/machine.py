"""Measure what the device achieves by itself: matrix products, and copies within it and to it."""

from collections.abc import Callable, Iterator

import torch

from bench.gpu.measuring import Row, seconds


def rows(size: int, numbers: int, device: str) -> Iterator[Row]:
    """Yield rows for square products of this size, and for copies of `numbers` float32 values."""
    for kind in (torch.bfloat16, torch.float32):
        left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
        took = _least(lambda: left @ right, device)  # noqa: B023 - run at once
        name = f"product of {size} x {size} x {size}, {str(kind).removeprefix('torch.')}"
        yield Row(name, took, rate=f"{2 * size**3 / took / 1e12:.3g} TFLOP/s")
    here = torch.zeros(numbers, device=device)
    there = torch.empty_like(here)
    took = _least(lambda: there.copy_(here), device)
    yield Row("copy on the device", took, rate=f"{8 * numbers / took / 1e9:,.3g} GB/s, read and written")
    pageable = torch.zeros(numbers)
    pinned = pageable.pin_memory() if device == "cuda" else pageable
    ours = _least(lambda: here.copy_(pinned, non_blocking=True), device)
    peer = _least(lambda: here.copy_(pageable), device)
    yield Row("copy to the device", ours, peer, f"{4 * numbers / ours / 1e9:,.3g} GB/s", note="pinned beside pageable")


def _least(run: Callable[[], object], device: str) -> float:
    seconds(run, device)
    return min(seconds(run, device) for _ in range(5))

"""Derive random numbers from a seed and a purpose, so that draws for one purpose do not shift those for another."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from disent_core.storage.tables import fingerprint


def derived_seed(*purpose: object) -> int:
    """Return a seed of 60 bits for a purpose, given as plain values, including a random seed."""
    return int(fingerprint(*purpose)[:15], 16)


def generator(*purpose: object) -> torch.Generator:
    """Return a generator with the derived seed, on the CPU."""
    return torch.Generator().manual_seed(derived_seed(*purpose))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Set the global generators (initial weights, dropout) to this seed; afterwards restore their state."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield

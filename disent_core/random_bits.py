"""Mix integers into random-looking bits: the same on every platform, each computable without the others.

An exported folder carries a copy of this file, so it imports numpy only.
"""

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The odd number nearest to 2^64 divided by the golden ratio: its multiples spread evenly."""


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64 (Steele et al. 2014, doi:10.1145/2660193.2660195), which mixes all bits."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))

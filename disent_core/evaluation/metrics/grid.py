"""Types of rows on the grid on which dot products are exact (`disent_core.exact`)."""

import numpy as np
from jaxtyping import Float32, Int64

Queries = Float32[np.ndarray, "queries dim"]
PoolRows = Float32[np.ndarray, "pool dim"]
Neighbours = tuple[Float32[np.ndarray, "queries k"], Int64[np.ndarray, "queries k"]]
"""Scores and indices of the k nearest candidates of each query, best first."""

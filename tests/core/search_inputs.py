"""A head that needs no model, for tests of indexes: the vectors of a text come from its characters."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from disent_core.search.build import Added, add_texts
from disent_core.search.contents import HeadRecord
from disent_core.search.texts import Text

HEAD = HeadRecord(fingerprint="w", encoder_fingerprint="e", seed=0, name="facet", encoder="tiny", trained_on="en-de")
DIMS = {"template": 5, "residual": 3}


def vectors(texts: Sequence[str], language: str | None = None) -> dict[str, np.ndarray]:
    """Texts of equal first letter have one residual; the vectors do not depend on the other texts."""
    seeds = {"template": texts, "residual": [text[:1] for text in texts]}
    return {name: np.stack([_drawn(seed, dim) for seed in seeds[name]]) for name, dim in DIMS.items()}


@cache
def _drawn(seed: str, dim: int) -> np.ndarray:
    return np.random.default_rng(list(seed.encode())).normal(size=dim).astype(np.float32)


def words(count: int, language: str | None = "en", first: int = 0) -> list[Text]:
    return [Text(f"{'abc'[number % 3]} text {number}", language) for number in range(first, first + count)]


def added(folder: Path, texts: Sequence[Text], head: HeadRecord = HEAD, encode=vectors) -> Added:
    return add_texts(folder, head, encode, texts)

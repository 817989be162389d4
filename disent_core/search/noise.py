"""Measure which cosines mean nothing: those that made-up words reach."""

import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from string import ascii_lowercase

import numpy as np

from disent_core.static_model import UnseenTextWarning

MADE_UP = 100
SHARE = 0.95
"""Share of the made-up texts that match nothing at the noise level."""
_WORDS, _LETTERS = (1, 8), (3, 9)


def noise_levels(nearest: Callable[[list[str]], Mapping[str, Iterable[float]]]) -> dict[str, float]:
    """Return, by embedding, the cosine that the nearest text of a query must exceed to be a match.

    Encoders differ in the cosine of two unrelated texts, and the nearest of many texts is nearer than that of few. So
    the level is measured on the index itself: texts of random letters, the same each time, are searched with `nearest`,
    and 95 % of them find nothing above the level.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenTextWarning)  # these texts are unseen on purpose
        best = nearest(made_up())
    return {name: float(np.quantile(np.array([*scores], np.float64), SHARE)) for name, scores in best.items()}


def written_apart(value: float, bound: float) -> tuple[str, str]:
    """Format two numbers with two decimals, or as many as show that they differ, up to six."""
    digits = next((digits for digits in range(2, 6) if f"{value:.{digits}f}" != f"{bound:.{digits}f}"), 6)
    return f"{value:.{digits}f}", f"{bound:.{digits}f}"


def made_up() -> list[str]:
    draw = random.Random(0)

    def word() -> str:
        return "".join(draw.choices(ascii_lowercase, k=draw.randint(*_LETTERS)))

    return [" ".join(word() for _ in range(draw.randint(*_WORDS))) for _ in range(MADE_UP)]

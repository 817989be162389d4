"""Fit and apply `centered`."""

from jaxtyping import Float64
from torch import Tensor

from disent_core.methods.centered import CenteredConfig
from disent_core.methods.families.unseeded import Solution, mean_vector, part
from disent_core.training.data import TrainingData


def solve(data: TrainingData, config: CenteredConfig) -> Solution:
    """Return `mean.<language>`, the mean of each language's training texts."""
    return {
        f"mean.{language}": mean_vector(data.vectors, rows)
        for language, rows in zip(data.languages, data.sentences, strict=True)
    }


def apply(
    solution: Solution, vectors: Float64[Tensor, "texts dim"], language: str, config: CenteredConfig
) -> Float64[Tensor, "texts dim"]:
    """Subtract from vectors the mean of their language, or their own mean."""
    return vectors - (vectors.mean(0) if config.source == "test" else part(solution, "mean", language))

"""`centered`: the encoder's sentence vector minus the mean of its language.

Libovicky, Rosa and Fraser 2020, https://arxiv.org/abs/2004.05160, section 3: a language shifts the whole cloud of
its sentences.
"""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float64
from torch import Tensor

from disent_core.heads.families.closed_form import ClosedFormMethod, Solution, mean_vector, part
from disent_core.settings import Settings
from disent_core.training.data import TrainingData


@dataclass(frozen=True, kw_only=True)
class CenteredConfig(Settings):
    """Which mean is subtracted.

    Attributes:
        source: `train` subtracts the mean of the language's distinct training texts, so that an embedding depends on
            its text alone. `test` subtracts the mean of the texts that are embedded together, queries and candidates
            separately, as the authors' script does. This is transductive: it uses statistics of the evaluation set.
    """

    source: Literal["train", "test"] = "train"


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


METHOD = ClosedFormMethod(
    name="centered",
    presets={"paper": CenteredConfig(), "official_code": CenteredConfig(source="test")},
    solve=solve,
    apply=apply,
)

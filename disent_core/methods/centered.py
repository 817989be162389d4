"""`centered`: the encoder's sentence vector minus the mean of its language.

Libovicky, Rosa and Fraser 2020, https://arxiv.org/abs/2004.05160, section 3: a language shifts the whole cloud of
its sentences.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import ClosedFormMethod
from disent_core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class CenteredConfig(Settings):
    """Which mean is subtracted.

    Attributes:
        source: `train` subtracts the mean of the language's distinct training texts, so that an embedding depends on
            its text alone. `test` subtracts the mean of the texts that are embedded together, queries and candidates
            separately, as the authors' script does. This is transductive: it uses statistics of the evaluation set.
    """

    source: Literal["train", "test"] = "train"


METHOD = ClosedFormMethod(
    name="centered",
    presets={"paper": CenteredConfig(), "official_code": CenteredConfig(source="test")},
    solve="disent_core.methods.centered_head:solve",
    apply="disent_core.methods.centered_head:apply",
    transductive=("source", "test"),
)

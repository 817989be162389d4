"""`projection`: a linear map from the space of one language to that of English, by least squares.

Libovicky, Rosa and Fraser 2020, https://arxiv.org/abs/2004.05160, section 3: e W + b, fitted on parallel
sentences. English vectors stay unchanged. Without English, the first language takes its place (the pivot).
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import ClosedFormMethod
from disent_core.settings import NotNegativeFloat, Settings


@dataclass(frozen=True, kw_only=True)
class ProjectionConfig(Settings):
    """How the map is fitted.

    Attributes:
        ridge: weight of |W|² beside the sum of squared errors, at least 0; the bias is never penalised.
        center: `test` subtracts from the mapped vectors the mean of the texts that are embedded together, queries and
            candidates separately. This is transductive: it uses statistics of the evaluated texts, but no translations.
    """

    ridge: NotNegativeFloat = 0.0
    center: Literal["none", "test"] = "none"


METHOD = ClosedFormMethod(
    name="projection",
    presets={"paper": ProjectionConfig(), "transductive": ProjectionConfig(center="test")},
    solve="disent_core.methods.projection_head:solve",
    apply="disent_core.methods.projection_head:apply",
    transductive=("center", "test"),
)

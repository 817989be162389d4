"""`centered`, `projection`, `procrustes`, `cca`: linear maps of sentence vectors in closed form, fitted in a second.

* `centered` subtracts the mean of the language, which shifts the whole cloud of its sentences (Libovicky, Rosa and
  Fraser 2020, https://arxiv.org/abs/2004.05160, section 3).
* `projection` maps the space of a language to that of the pivot by least squares, e W + b, fitted on parallel
  sentences (ibid.). The pivot is English or, without English, the first language; its vectors stay unchanged.
* `procrustes` (Schönemann 1966, https://doi.org/10.1007/BF02289451) rotates the vectors of each language onto those of
  the pivot.
* `cca` (Hotelling 1936, https://doi.org/10.1093/biomet/28.3-4.321) maps both languages of a pair into the directions in
  which translations are correlated, each weighted by its correlation.

`procrustes` and `cca` give vectors norm 1 before they subtract the mean of their language.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import ClosedFormMethod
from disent_core.settings import NotNegativeFloat, PositiveFloat, Settings, Width


@dataclass(frozen=True, kw_only=True)
class CenteredConfig(Settings):
    """Which mean is subtracted.

    Attributes:
        source: `train` subtracts the mean of the language's distinct training texts, so that an embedding depends on
            its text alone. `test` subtracts the mean of the texts that are embedded together, queries and candidates
            separately, as the authors' script does. This is transductive: it uses statistics of the evaluation set.
    """

    source: Literal["train", "test"] = "train"


CENTERED = ClosedFormMethod(
    name="centered",
    presets={"paper": CenteredConfig(), "official_code": CenteredConfig(source="test")},
    solve="disent_core.methods.closed_form_head:language_means",
    apply="disent_core.methods.closed_form_head:subtract_mean",
    transductive=("source", "test"),
)


@dataclass(frozen=True, kw_only=True)
class ProjectionConfig(Settings):
    """How the map is fitted.

    Attributes:
        ridge: weight of |W|² added to the sum of squared errors, at least 0; the bias is never penalised.
        center: `test` subtracts from the mapped vectors the mean of the texts that are embedded together, queries and
            candidates separately. This is transductive: it uses statistics of the evaluated texts, but no translations.
    """

    ridge: NotNegativeFloat = 0.0
    center: Literal["none", "test"] = "none"


PROJECTION = ClosedFormMethod(
    name="projection",
    presets={"paper": ProjectionConfig(), "transductive": ProjectionConfig(center="test")},
    solve="disent_core.methods.closed_form_head:least_squares_maps",
    apply="disent_core.methods.closed_form_head:map_to_pivot",
    transductive=("center", "test"),
)


@dataclass(frozen=True, kw_only=True)
class ProcrustesConfig(Settings):
    """Rotations have no settings."""


@dataclass(frozen=True, kw_only=True)
class CcaConfig(Settings):
    """How directions are fitted and weighted.

    Attributes:
        width: directions to keep, those with the highest correlation; at most as many as the vectors have dimensions.
        power: exponent of the correlation that each direction is multiplied by; 0 weights all directions equally.
        floor: added to the variances of each language's vectors before whitening.
    """

    width: Width = 384
    power: NotNegativeFloat = 1.0
    floor: PositiveFloat = 1e-5


PROCRUSTES = ClosedFormMethod(
    name="procrustes",
    presets={"paper": ProcrustesConfig()},
    solve="disent_core.methods.closed_form_head:rotations",
    apply="disent_core.methods.closed_form_head:map_to_shared_space",
)
CCA = ClosedFormMethod(
    name="cca",
    presets={"paper": CcaConfig()},
    space={
        "width": (64, 128, 192, 256, 384),
        "power": (0.0, 0.5, 1.0, 2.0),
        "floor": (1e-6, 1e-5, 1e-4, 1e-3),
    },
    solve="disent_core.methods.closed_form_head:correlated_directions",
    apply="disent_core.methods.closed_form_head:map_to_shared_space",
)

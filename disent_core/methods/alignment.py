"""`procrustes` and `cca`: linear alignments of the sentence vectors of two languages, in closed form, in a second.

`procrustes` (Schönemann 1966, https://doi.org/10.1007/BF02289451) rotates the vectors of each language onto those of
the pivot, which is English or, without English, the first language. `cca` (Hotelling 1936,
https://doi.org/10.1093/biomet/28.3-4.321) maps both languages of a pair into the directions in which translations are
correlated, each weighted by its correlation. Vectors have norm 1 before the mean of their language is subtracted.
"""

from dataclasses import dataclass

from disent_core.methods.families import ClosedFormMethod
from disent_core.settings import NotNegativeFloat, PositiveFloat, Settings, Width


@dataclass(frozen=True, kw_only=True)
class ProcrustesConfig(Settings):
    """Rotations have no settings."""


@dataclass(frozen=True, kw_only=True)
class CcaConfig(Settings):
    """How directions are fitted and weighted.

    Attributes:
        width: directions that are kept, those of the highest correlation; at most as many as the vectors have.
        power: exponent of the correlation by which a direction is multiplied; 0 gives all the same weight.
        floor: added to the variances of each language's vectors before whitening.
    """

    width: Width = 384
    power: NotNegativeFloat = 1.0
    floor: PositiveFloat = 1e-5


PROCRUSTES = ClosedFormMethod(
    name="procrustes",
    presets={"paper": ProcrustesConfig()},
    solve="disent_core.methods.alignment_head:rotations",
    apply="disent_core.methods.alignment_head:apply",
)
CCA = ClosedFormMethod(
    name="cca",
    presets={"paper": CcaConfig()},
    space={
        "width": (64, 128, 192, 256, 384),
        "power": (0.0, 0.5, 1.0, 2.0),
        "floor": (1e-6, 1e-5, 1e-4, 1e-3),
    },
    solve="disent_core.methods.alignment_head:correlated_directions",
    apply="disent_core.methods.alignment_head:apply",
)

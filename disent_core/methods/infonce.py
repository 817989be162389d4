"""`infonce`: a linear map or a small network over sentence vectors, trained by plain InfoNCE on translations.

The loss is a softmax over a batch in both directions (van den Oord et al. 2018, https://arxiv.org/abs/1807.03748,
Eq. 4), as sentence-transformers has it for pairs: no reconstruction, no language embedding, no template. It shows what
the contrast alone gives, so that methods with more terms can be compared with it.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import Positive, PositiveFloat, Rate, Width
from disent_core.training.config import SPACE, TrainConfig


@dataclass(frozen=True, kw_only=True)
class InfoNceConfig(TrainConfig):
    """The map and its loss.

    Attributes:
        layers: one `linear` layer, or an `mlp` of two with GELU between.
        units: width of the meaning, and of the layer between.
        temperature: divisor of the cosines.
    """

    learning_rate: Rate = 1e-3
    max_epochs: Positive = 100
    patience: Positive = 10
    monitor: Literal["loss", "loss_without_adversarial", "dev_retrieval"] = "dev_retrieval"
    layers: Literal["linear", "mlp"] = "linear"
    units: Width = 1024
    temperature: PositiveFloat = 0.05


METHOD = FrozenHeadMethod(
    name="infonce",
    presets={"paper": InfoNceConfig(), "mlp": InfoNceConfig(layers="mlp")},
    head="disent_core.methods.infonce_head:InfoNceHead",
    embeddings=("meaning",),
    needs=frozenset(),
    space={
        **SPACE,
        "weight_decay": (0.0, 0.01, 0.1, 1.0),
        "units": (256, 512, 1024, 2048),
        "temperature": (0.02, 0.05, 0.1),
    },
)

"""`infonce` and `fine_tuned`: training on translations by plain InfoNCE, over a frozen encoder or of the encoder.

`infonce` is a linear map or a small network over sentence vectors. The loss is a softmax over a batch in both
directions (van den Oord et al. 2018, https://arxiv.org/abs/1807.03748, Eq. 4), as sentence-transformers has it for
pairs: no reconstruction, no language embedding, no template. It shows what the contrast alone gives, so that methods
with more terms can be compared with it.

`fine_tuned` is the encoder itself, fine-tuned on the training pairs: an upper reference, not a method of a paper.
The loss is symmetric in-batch softmax over cosine / temperature, so that translations find one another. Every weight
of the encoder is trained. The results show what the pairs contain; they are not comparable with those of frozen
heads, which have a thousandth of the parameters and cannot read the words again.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FineTunedMethod, FrozenHeadMethod, TuningConfig
from disent_core.settings import Decay, Positive, PositiveFloat, Rate, Width
from disent_core.training.config import SPACE, TrainConfig


@dataclass(frozen=True, kw_only=True)
class InfoNceConfig(TrainConfig):
    """The map and its loss.

    Attributes:
        layers: one `linear` layer, or a two-layer `mlp` with GELU in between.
        units: width of the meaning and of the hidden layer.
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


@dataclass(frozen=True, kw_only=True)
class TunedConfig(TuningConfig):
    """Two learning rates are worth a try: 2e-5 for a large encoder, 5e-5 for a small one.

    Attributes:
        temperature: divisor of the cosines in the softmax.
        gradient_cache: recompute the encoder's states for the gradient, a few texts at a time (Gao et al. 2021). The
            gradient is the same and takes a third longer, but a batch of any size fits in memory.
    """

    learning_rate: Rate = 5e-5
    weight_decay: Decay = 0.01
    batch_size: Positive = 64
    epochs: Positive = 5
    monitor: Literal["last", "loss", "dev_accuracy"] = "dev_accuracy"
    temperature: PositiveFloat = 0.05
    gradient_cache: bool = False


FINE_TUNED = FineTunedMethod(
    name="fine_tuned",
    presets={
        "paper": TunedConfig(),
        "bfloat16": TunedConfig(precision="bfloat16"),
        "converged": TunedConfig(
            precision="bfloat16", learning_rate=2e-4, batch_size=512, gradient_cache=True, epochs=100, patience=3
        ),
    },
    tasks="disent_core.methods.infonce_head:tasks",
    embeddings=("meaning",),
    space={
        "learning_rate": (5e-5, 1e-4, 2e-4, 5e-4),
        "weight_decay": (0.0, 0.01, 0.1),
        "batch_size": (64, 128, 256, 512),
        "temperature": (0.02, 0.05, 0.1),
    },
    ranks_dev_pairs=True,
)

"""`fine_tuned`: the encoder itself, fine-tuned on the training pairs. An upper reference, not a method of a paper.

The loss is symmetric in-batch softmax over cosine / temperature, so that translations find one another. Every weight
of the encoder is trained. The results show what the pairs contain; they are not comparable with those of frozen
heads, which have a thousandth of the parameters and cannot read the words again.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FineTunedMethod, TuningConfig
from disent_core.settings import Decay, Positive, PositiveFloat, Rate


@dataclass(frozen=True, kw_only=True)
class TunedConfig(TuningConfig):
    """Two learning rates are worth a try: 2e-5 for a large encoder, 5e-5 for a small one.

    Attributes:
        temperature: divisor of the cosines in the softmax.
        gradient_cache: compute the encoder's states again for the gradient, a few texts at a time (Gao et al. 2021).
            The gradient is the same, takes a third longer, and a batch of any size fits in memory.
    """

    learning_rate: Rate = 5e-5
    weight_decay: Decay = 0.01
    batch_size: Positive = 64
    epochs: Positive = 5
    monitor: Literal["last", "loss", "dev_accuracy"] = "dev_accuracy"
    temperature: PositiveFloat = 0.05
    gradient_cache: bool = False


METHOD = FineTunedMethod(
    name="fine_tuned",
    presets={
        "paper": TunedConfig(),
        "bfloat16": TunedConfig(precision="bfloat16"),
        "converged": TunedConfig(
            precision="bfloat16", learning_rate=2e-4, batch_size=512, gradient_cache=True, epochs=100, patience=3
        ),
    },
    tasks="disent_core.methods.fine_tuned_encoder_head:tasks",
    embeddings=("meaning",),
    ranks_dev_pairs=True,
)

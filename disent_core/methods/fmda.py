"""FMDA: template, residual and language embeddings of task-oriented utterances, from token states.

The sentence vector is the attention query, the token states are keys and values. The attention gives the template
(the carrier phrase), its complement the residual (the slot values); together they are the meaning. Targets are the
frozen vectors of the masked utterance.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import PositiveFloat, Rate
from disent_core.training.config import TrainConfig
from disent_core.training.needs import Draw, Need

ResidualAttention = Literal["softmax", "renorm"]
Group = Literal[
    "reconstruction", "utterance_reconstruction", "template_reconstruction", "residual_reconstruction", "contrast"
]


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(TrainConfig):
    """Switches of maps and attention that the paper leaves open; the defaults follow its text.

    Attributes:
        ffn: maps of one linear layer, or of two with `activation` between.
        activation: activation between the layers of `mlp2`.
        attention_scale: `sqrt_d` divides attention scores by the square root of the width.
        attention_special: whether attention covers the special tokens, the first and the last.
        residual_attention: weights of the residual from the template's weights a: softmax(1 - a), as published, or
            (1 - a) / (L - 1) over L tokens (`renorm`).
    """

    ffn: Literal["linear", "mlp2"] = "linear"
    activation: Literal["gelu", "relu", "tanh"] = "gelu"
    attention_scale: Literal["none", "sqrt_d"] = "none"
    attention_special: Literal["keep", "drop"] = "keep"
    residual_attention: ResidualAttention = "softmax"


@dataclass(frozen=True, kw_only=True)
class FmdaConfig(AttentionConfig):
    """Switches that the paper leaves open; the defaults follow its text.

    Attributes:
        reconstruction_target: vector that the utterance's reconstruction should give: the encoder's sentence vector
            (`cls`), or the `mean` of its token states.
        reconstruction_mlp: which reconstructions pass through a feed-forward map before they are compared.
        contrast: `linear` and `hinge` compare a pair with one negative each; `softmax` is in-batch InfoNCE in both
            directions, with the negative of the pool as one more candidate.
        temperature: divisor of the cosines in `softmax`.
        without: groups of losses to leave out, as in the paper's Table 4; `reconstruction` is all three of them.
    """

    learning_rate: Rate = 1e-4
    reconstruction_target: Literal["cls", "mean"] = "cls"
    reconstruction_mlp: Literal["utterance", "all", "none"] = "utterance"
    contrast: Literal["linear", "hinge", "softmax"] = "linear"
    temperature: PositiveFloat = 0.05
    without: tuple[Group, ...] = ()

    def has(self, group: str) -> bool:
        """Whether the losses of a group are in the total."""
        is_whole = group.endswith("_reconstruction") and "reconstruction" in self.without
        return group not in self.without and not is_whole


def draws(config: FmdaConfig) -> tuple[Draw, ...]:
    """Return negatives, unless the contrast is left out."""
    return ("negative",) if config.has("contrast") else ()


METHOD = FrozenHeadMethod(
    name="fmda",
    presets={
        "paper": FmdaConfig(monitor="dev_retrieval"),
        "hinge": FmdaConfig(contrast="hinge", learning_rate=1e-3, monitor="dev_retrieval"),
        "softmax": FmdaConfig(
            contrast="softmax", learning_rate=1e-3, max_epochs=40, patience=5, monitor="dev_retrieval"
        ),
    },
    head="disent_core.methods.fmda_head:FmdaHead",
    embeddings=("meaning", "template", "residual", "language"),
    needs=frozenset({Need.TOKEN_STATES, Need.MASKED_TARGETS, Need.NEGATIVE_POOL}),
    draws=draws,
    code_version="3",
)

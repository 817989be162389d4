"""FMDA: template, residual and language embeddings of task-oriented utterances, from token states.

The sentence vector is the attention query, the token states are keys and values. The attention gives the template
(the carrier phrase), its complement the residual (the slot values); together they are the meaning. Targets are the
frozen vectors of the masked utterance.

`fmda_two_stage` first trains the template encoder, then everything else. Stage 1 trains attention and template values
on utterances of one template and language, which differ in their slot values only. Stage 2 freezes them and trains
residual, language and meaning on translations.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from disent_core.errors import commas
from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import PositiveFloat, Rate
from disent_core.training.config import SPACE, TrainConfig
from disent_core.training.needs import Draw, Need

ResidualAttention = Literal["softmax", "renorm"]
Group = Literal[
    "reconstruction", "utterance_reconstruction", "template_reconstruction", "residual_reconstruction", "contrast"
]
Frozen = Literal["query", "key", "template_value", "language"]


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(TrainConfig):
    """Options for maps and attention that the paper leaves open; the defaults follow its text.

    Attributes:
        ffn: maps of one linear layer, or of two with `activation` between.
        activation: activation between the layers of `mlp2`.
        attention_scale: `sqrt_d` divides attention scores by the square root of the width.
        attention_special: whether attention covers the special tokens, the first and the last.
        residual_attention: weights of the residual, computed from the template's weights a: softmax(1 - a), as
            published, or (1 - a) / (L - 1) over L tokens (`renorm`).
    """

    ffn: Literal["linear", "mlp2"] = "linear"
    activation: Literal["gelu", "relu", "tanh"] = "gelu"
    attention_scale: Literal["none", "sqrt_d"] = "none"
    attention_special: Literal["keep", "drop"] = "keep"
    residual_attention: ResidualAttention = "softmax"


@dataclass(frozen=True, kw_only=True)
class FmdaConfig(AttentionConfig):
    """Options that the paper leaves open; the defaults follow its text.

    Attributes:
        reconstruction_target: target of the utterance's reconstruction: the encoder's sentence vector (`cls`), or the
            `mean` of its token states.
        reconstruction_mlp: which reconstructions pass through a feed-forward map before they are compared.
        contrast: `linear` and `hinge` compare a pair with one negative each; `softmax` is in-batch InfoNCE in both
            directions, with the negative of the pool as an extra candidate.
        temperature: divisor of the cosines in `softmax`.
        without: groups of losses to leave out, as in the paper's Table 4; `reconstruction` stands for all three of
            them.
    """

    learning_rate: Rate = 1e-4
    reconstruction_target: Literal["cls", "mean"] = "cls"
    reconstruction_mlp: Literal["utterance", "all", "none"] = "utterance"
    contrast: Literal["linear", "hinge", "softmax"] = "linear"
    temperature: PositiveFloat = 0.05
    without: tuple[Group, ...] = ()

    def has(self, group: str) -> bool:
        is_whole = group.endswith("_reconstruction") and "reconstruction" in self.without
        return group not in self.without and not is_whole


def draws(config: FmdaConfig) -> tuple[Draw, ...]:
    return ("negative",) if config.has("contrast") else ()


# Without `ffn`: maps of two layers take several times as long.
_SPACE = {
    **SPACE,
    "temperature": (0.02, 0.05, 0.1),
    "attention_scale": ("none", "sqrt_d"),
    "attention_special": ("keep", "drop"),
    "residual_attention": ("softmax", "renorm"),
}

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
    space=_SPACE,
    code_version="3",
)


@dataclass(frozen=True, kw_only=True)
class FmdaTwoStageConfig(FmdaConfig):
    """FMDA's options, which apply to both stages, and those of the stages.

    In stage 1 `monitor` = `dev_retrieval` measures template embeddings.

    Attributes:
        stage1_train_language: train the language embedding in stage 1 and add it to the template in the reconstruction;
            otherwise the template alone is compared with its target, and stage 2 trains the language embedding.
        stage2_freeze: maps that stage 2 does not train.
    """

    stage1_train_language: bool = True
    stage2_freeze: tuple[Frozen, ...] = ("query", "key", "template_value")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.stage1_train_language or self.has("template_reconstruction") or self.has("contrast")):
            raise ValueError(f"without must leave stage 1 something to learn, found {commas(self.without)}")


@dataclass(frozen=True, kw_only=True)
class TwoStageMethod(FrozenHeadMethod[FmdaTwoStageConfig]):
    """FMDA whose template encoder is trained in a stage of its own.

    Both stages share one curve: epochs and steps of stage 2 continue those of stage 1. The loss terms of stage 1 are
    named `stage_1_...`, there and in `weights`; the terms that early stopping monitors keep their names.
    """

    trainer: ClassVar[Any] = "disent_core.methods.fmda_head:TwoStageTrainer"
    first: FrozenHeadMethod[FmdaTwoStageConfig]

    def most_epochs(self, settings: FmdaTwoStageConfig) -> int:
        return 2 * settings.max_epochs


PRESETS = {name: FmdaTwoStageConfig(**asdict(preset)) for name, preset in METHOD.presets.items()}

TWO_STAGE = TwoStageMethod(
    name="fmda_two_stage",
    presets=PRESETS,
    first=FrozenHeadMethod(
        name="fmda_two_stage_1",
        presets=PRESETS,
        head="disent_core.methods.fmda_head:TemplateStage",
        embeddings=METHOD.embeddings,
        needs=METHOD.needs,
        draws=draws,
        code_version=METHOD.code_version,
    ),
    head="disent_core.methods.fmda_head:MeaningStage",
    embeddings=METHOD.embeddings,
    needs=METHOD.needs | {Need.TEMPLATE_PAIRS},
    draws=draws,
    space=_SPACE,
    code_version="2",
)

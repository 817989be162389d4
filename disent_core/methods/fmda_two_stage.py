"""FMDA in two stages: first the template encoder, on pairs of one template and language, then everything else.

Stage 1 trains attention and template values on utterances that differ in their slot values only. Stage 2 freezes
them and trains residual, language and meaning on translations.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.methods.fmda import METHOD as FMDA
from disent_core.methods.fmda import FmdaConfig, draws
from disent_core.training.needs import Need

Frozen = Literal["query", "key", "template_value", "language"]


@dataclass(frozen=True, kw_only=True)
class FmdaTwoStageConfig(FmdaConfig):
    """FMDA's switches, which hold in both stages, and those of the stages.

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
            raise ValueError(f"without must leave stage 1 something to learn, found {self.without}")


@dataclass(frozen=True, kw_only=True)
class TwoStageMethod(FrozenHeadMethod[FmdaTwoStageConfig]):
    """FMDA whose template encoder is trained in a stage of its own.

    Both stages share one curve: epochs and steps of stage 2 continue those of stage 1. The loss terms of stage 1 are
    named `stage_1_...`, there and in `weights`; the terms that early stopping monitors keep their names.
    """

    trainer: ClassVar[Any] = "disent_core.methods.fmda_two_stage_head:TwoStageTrainer"

    first: FrozenHeadMethod[FmdaTwoStageConfig]

    def most_epochs(self, settings: FmdaTwoStageConfig) -> int:
        return 2 * settings.max_epochs


PRESETS = {name: FmdaTwoStageConfig(**asdict(preset)) for name, preset in FMDA.presets.items()}

METHOD = TwoStageMethod(
    name="fmda_two_stage",
    presets=PRESETS,
    first=FrozenHeadMethod(
        name="fmda_two_stage_1",
        presets=PRESETS,
        head="disent_core.methods.fmda_two_stage_head:TemplateStage",
        embeddings=FMDA.embeddings,
        needs=FMDA.needs,
        draws=draws,
        code_version=FMDA.code_version,
    ),
    head="disent_core.methods.fmda_two_stage_head:MeaningStage",
    embeddings=FMDA.embeddings,
    needs=FMDA.needs | {Need.TEMPLATE_PAIRS},
    draws=draws,
    code_version="2",
)

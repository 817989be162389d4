"""Methods that fine-tune on intents, and three of them: `softmax`, `contrastive` and `npair`.

They are the losses that EMU is compared with (Hirota et al. 2020, Table 2).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from disent_core.methods.families import FineTunedMethod, TuningConfig
from disent_core.settings import Positive, PositiveFloat, Rate
from disent_core.training.needs import Need


@dataclass(frozen=True, kw_only=True)
class IntentConfig(TuningConfig):
    """What is fine-tuned, and on which labels.

    The paper's learning rate, 1e-3, is for LASER's BiLSTM: with Adam it destroys a transformer. Preset `paper`
    keeps it; preset `transformer` has 2e-5. Preset `head` trains a map over the frozen vectors.

    Attributes:
        tune: the whole `encoder`, or a `head` over its frozen vectors, which starts as the identity.
        map: the head: one `linear` layer, or an `mlp` of two beside a residual connection.
        training_languages: languages whose intents are read; none is English if it is one of the languages, else the
            first.
    """

    learning_rate: Rate = 1e-3
    batch_size: Positive = 16
    epochs: Positive = 3
    tune: Literal["encoder", "head"] = "encoder"
    map: Literal["linear", "mlp"] = "linear"
    training_languages: tuple[str, ...] = ()

    @property
    def vector_map(self) -> Literal["linear", "mlp"] | None:
        """The map, if `tune` is `head`."""
        return self.map if self.tune == "head" else None

    @property
    def other_languages(self) -> tuple[str, ...]:
        """Languages whose unlabelled utterances are read too; none is all that are no training languages."""
        return ()


def intent_method(name: str, tasks: str, config: type[IntentConfig], **settings: Any) -> FineTunedMethod:
    """Return a method of this family, with its three presets; its embedding is named `sentence`."""
    return FineTunedMethod(
        name=name,
        presets={
            "paper": config(**settings),
            "transformer": config(**settings, learning_rate=2e-5),
            "head": config(**settings, tune="head"),
        },
        tasks=tasks,
        embeddings=("sentence",),
        needs=frozenset({Need.UTTERANCES, Need.ENCODER}),
    )


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(IntentConfig):
    """A linear classifier on the raw vector: no alpha, no normalisation, no center loss."""


@dataclass(frozen=True, kw_only=True)
class ContrastiveConfig(IntentConfig):
    """A Siamese network: squared distance for equal intents, squared hinge loss for different ones.

    Attributes:
        margin: distance from which utterances of different intents cost nothing.
    """

    margin: PositiveFloat = 2.0


@dataclass(frozen=True, kw_only=True)
class NPairConfig(IntentConfig):
    """The N-pair loss over cosine: one positive of the same intent, and negatives of other intents.

    Attributes:
        npair_n: candidates of an utterance: one positive and `npair_n` - 1 negatives, at least 2.
    """

    npair_n: Annotated[int, Ge(2), Le(10_000)] = 5


SOFTMAX = intent_method("softmax", "disent_core.methods.intent_baselines_head:softmax_tasks", SoftmaxConfig)
CONTRASTIVE = intent_method(
    "contrastive", "disent_core.methods.intent_baselines_head:contrastive_tasks", ContrastiveConfig
)
NPAIR = intent_method("npair", "disent_core.methods.intent_baselines_head:npair_tasks", NPairConfig)

"""Declare methods that fine-tune on intents: EMU and its baselines."""

from dataclasses import dataclass
from typing import Any, Literal

from disent_core.methods.families import FineTunedMethod, TuningConfig
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

    learning_rate: float = 1e-3
    batch_size: int = 16
    epochs: int = 3
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

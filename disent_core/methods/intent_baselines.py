"""`softmax`, `contrastive` and `npair`: the losses that EMU is compared with (Hirota et al. 2020, Table 2)."""

from dataclasses import dataclass

from disent_core.methods.intent import IntentConfig, intent_method


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(IntentConfig):
    """A linear classifier on the raw vector: no alpha, no normalisation, no center loss."""


@dataclass(frozen=True, kw_only=True)
class ContrastiveConfig(IntentConfig):
    """A Siamese network: squared distance for equal intents, squared hinge loss for different ones.

    Attributes:
        margin: distance from which utterances of different intents cost nothing.
    """

    margin: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("margin")


@dataclass(frozen=True, kw_only=True)
class NPairConfig(IntentConfig):
    """The N-pair loss over cosine: one positive of the same intent, and negatives of other intents.

    Attributes:
        npair_n: candidates of an utterance: one positive and `npair_n` - 1 negatives, at least 2.
    """

    npair_n: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_range("npair_n", at_least=2)


SOFTMAX = intent_method("softmax", "disent_core.heads.intent_baselines:softmax_tasks", SoftmaxConfig)
CONTRASTIVE = intent_method("contrastive", "disent_core.heads.intent_baselines:contrastive_tasks", ContrastiveConfig)
NPAIR = intent_method("npair", "disent_core.heads.intent_baselines:npair_tasks", NPairConfig)

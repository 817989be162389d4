"""EMU: sentence vectors specialised to intents, kept multilingual by a discriminator of languages.

Hirota, Suhara, Golshan, Tan: *Emu: Enhancing Multilingual Sentence Embeddings with Semantic Specialization*,
AAAI 2020. A linear classifier reads alpha u / ||u||. A center loss pulls utterances of an intent together. The
discriminator tells utterances of the labelled (training) languages from those of the adversarial ones, and the
encoder is trained against it. Adversarial languages need no labels. In `emu_parallel` the discriminator compares an
utterance with its own translation. `softmax`, `contrastive` and `npair` are losses that the paper compares EMU with
(Table 2).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from disent_core.methods.families import FineTunedMethod, TuningConfig
from disent_core.settings import NotNegativeFloat, Positive, PositiveFloat, PositiveShare, Rate


@dataclass(frozen=True, kw_only=True)
class IntentConfig(TuningConfig):
    """What is fine-tuned, and on which labels.

    The paper's learning rate, 1e-3, is for LASER's BiLSTM: with Adam it destroys a transformer. Preset `paper`
    keeps it; preset `transformer` has 2e-5. Preset `head` trains a map over the frozen vectors.

    Attributes:
        tune: the whole `encoder`, or a `head` over its frozen vectors, which starts as the identity.
        map: the head: one `linear` layer, or a two-layer `mlp` with a residual connection.
        training_languages: languages whose intents are used; if omitted, English if it is one of the languages, else
            the first.
    """

    learning_rate: Rate = 1e-3
    batch_size: Positive = 16
    epochs: Positive = 3
    tune: Literal["encoder", "head"] = "encoder"
    map: Literal["linear", "mlp"] = "linear"
    training_languages: tuple[str, ...] = ()

    @property
    def vector_map(self) -> Literal["linear", "mlp"] | None:
        return self.map if self.tune == "head" else None


def intent_method(name: str, tasks: str, config: type[IntentConfig], **settings: Any) -> FineTunedMethod:
    """Return a method of this family with three presets; its embedding is named `sentence`."""
    return FineTunedMethod(
        name=name,
        presets={
            "paper": config(**settings),
            "transformer": config(**settings, learning_rate=2e-5),
            "head": config(**settings, tune="head"),
        },
        tasks=tasks,
        embeddings=("sentence",),
    )


@dataclass(frozen=True, kw_only=True)
class EmuConfig(IntentConfig):
    """Options that the paper leaves open; the defaults follow its text.

    Attributes:
        alpha: length of the vector that the classifier reads.
        center_weight: lambda, the weight of the center loss; 0 leaves it out.
        centers: `running` means as in Wen et al. 2016, which start at 0; the means of the `batch`; or `learned` ones.
        center_rate: step of a running center towards the mean of the batch.
        center_reduction: the center loss of a batch is a `sum` (the paper) or a `mean`.
        discriminator: train a language discriminator; without it, `gamma` and all settings below have no effect.
        gamma: weight of the discriminator's loss, which the encoder is trained to raise.
        discriminator_updates: k, the discriminator's updates before each step of encoder and classifier.
        discriminator_learning_rate: learning rate of the discriminator's Adam.
        clip: bound to which each of the discriminator's weights is clipped after each of its updates.
        disc_loss: cross-entropy with clipping (the paper's formula), or a Wasserstein critic (what the paper calls it).
        disc_activation: activation between the discriminator's layers.
        disc_input: the `raw` vector, or the `normalised` one that the classifier reads.
        adversary: a `random` utterance of a random adversarial language, or the `translation` of the labelled utterance
            into that language, by utterance id.
        adversarial_languages: languages of the unlabelled utterances; if omitted, all that are not training languages.
    """

    alpha: PositiveFloat = 50.0
    center_weight: NotNegativeFloat = 1e-4
    centers: Literal["running", "batch", "learned"] = "running"
    center_rate: PositiveShare = 0.5
    center_reduction: Literal["sum", "mean"] = "sum"
    discriminator: bool = True
    gamma: NotNegativeFloat = 1e-4
    discriminator_updates: Positive = 5
    discriminator_learning_rate: Rate = 5e-4
    clip: PositiveFloat = 0.01
    disc_loss: Literal["ce_clip", "wgan"] = "ce_clip"
    disc_activation: Literal["leaky_relu", "relu", "tanh"] = "leaky_relu"
    disc_input: Literal["raw", "normalised"] = "raw"
    adversary: Literal["random", "translation"] = "random"
    adversarial_languages: tuple[str, ...] = ()


TASKS = "disent_core.methods.emu_head:tasks"

METHOD = intent_method("emu", TASKS, EmuConfig)
NO_DISCRIMINATOR = intent_method("emu_no_discriminator", TASKS, EmuConfig, discriminator=False)
NO_DISCRIMINATOR_NO_CENTER = intent_method(
    "emu_no_discriminator_no_center", TASKS, EmuConfig, discriminator=False, center_weight=0.0
)
PARALLEL = intent_method("emu_parallel", TASKS, EmuConfig, adversary="translation")


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(IntentConfig):
    """A linear classifier on the raw vector: no alpha, no normalisation, no center loss."""


@dataclass(frozen=True, kw_only=True)
class ContrastiveConfig(IntentConfig):
    """A Siamese network: squared distance for equal intents, squared hinge loss for different ones.

    Attributes:
        margin: distance beyond which utterances of different intents add no loss.
    """

    margin: PositiveFloat = 2.0


@dataclass(frozen=True, kw_only=True)
class NPairConfig(IntentConfig):
    """The N-pair loss over cosine: one positive of the same intent, and negatives of other intents.

    Attributes:
        npair_n: candidates per utterance: one positive and `npair_n` - 1 negatives, at least 2.
    """

    npair_n: Annotated[int, Ge(2), Le(10_000)] = 5


SOFTMAX = intent_method("softmax", "disent_core.methods.emu_head:softmax_tasks", SoftmaxConfig)
CONTRASTIVE = intent_method("contrastive", "disent_core.methods.emu_head:contrastive_tasks", ContrastiveConfig)
NPAIR = intent_method("npair", "disent_core.methods.emu_head:npair_tasks", NPairConfig)

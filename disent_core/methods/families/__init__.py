"""Declare families of methods: what their methods have in common, and which trainer they use.

A method has the object that computes it, or a reference `module:ATTRIBUTE` to it that is imported when needed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

from disent_core.methods.contract import Config, Method
from disent_core.optimisation.config import OptimiserConfig
from disent_core.settings import Decay, NotNegative, Positive, Precision, Rate, Seconds, Settings
from disent_core.training.config import TrainConfig
from disent_core.training.needs import Draw, Need

HeadConfig = TypeVar("HeadConfig", bound=TrainConfig)  # the settings of a head


@dataclass(frozen=True, kw_only=True)
class UntrainedMethod(Method[Config], Generic[Config]):
    """A `Method` without weights: `sentence(features, config)` returns its only embedding, `sentence`."""

    trainer: ClassVar[Any] = "disent_core.methods.families.unseeded:UntrainedTrainer"
    sentence: Callable[[Any, Config], Any] | str
    embeddings: tuple[str, ...] = ("sentence",)
    is_trained: bool = False
    is_seeded: bool = False


@dataclass(frozen=True, kw_only=True)
class ClosedFormMethod(Method[Config], Generic[Config]):
    """A `Method` of one embedding, `sentence`, whose weights are the solution of a formula.

    `solve(data, config)` returns the solution, `apply(solution, vectors, language, config)` embeds vectors of a
    language.
    """

    trainer: ClassVar[Any] = "disent_core.methods.families.unseeded:ClosedFormTrainer"
    solve: Callable[[Any, Config], Any] | str
    apply: Callable[[Any, Any, str, Config], Any] | str
    embeddings: tuple[str, ...] = ("sentence",)
    is_seeded: bool = False
    trains_on_gpu: bool = False
    ranks_dev_pairs: bool = True


@dataclass(frozen=True, kw_only=True)
class FrozenHeadMethod(Method[HeadConfig], Generic[HeadConfig]):
    """A `Method` whose head is a small module over the vectors (and token states) of a frozen encoder.

    `head(dim, n_languages, config)` makes a head with fresh parameters; `draws` are the random texts that it trains on,
    and may depend on the config.
    """

    trainer: ClassVar[Any] = "disent_core.methods.families.frozen:FrozenHeadTrainer"
    head: Callable[[int, int, HeadConfig], Any] | str
    draws: tuple[Draw, ...] | Callable[[HeadConfig], tuple[Draw, ...]] = ()

    def may_stop_early(self, settings: HeadConfig) -> bool:
        """Return True, since all heads have a `patience`, unless a `schedule` should make the last epochs best."""
        return getattr(settings, "schedule", "constant") == "constant"

    def without_warm_start(self, settings: HeadConfig) -> HeadConfig:
        return replace(settings, warm_start=False)


@dataclass(frozen=True, kw_only=True)
class SeedBySeedMethod(Method[Config]):
    """A `Method` that is trained one seed after another, because its model is too large for a stack of seeds.

    Below are the families of fine-tuned encoders and of taggers; `facet` and `lexicon`, whose word tables are large,
    set `trainer` and `needs`.
    """

    trainer: Any = None  # pyright: ignore[reportIncompatibleVariableOverride] - here, each method may have its own
    needs: frozenset[Need] = frozenset({Need.UTTERANCES, Need.ENCODER})
    code_version: str = "2"


@dataclass(frozen=True, kw_only=True)
class TuningConfig(Settings):
    """How an encoder or a head is fine-tuned. Two runs with equal configs, data and seeds are identical.

    Attributes:
        learning_rate: learning rate of Adam, constant.
        weight_decay: strength of the decoupled weight decay (AdamW); 0 turns it off.
        batch_size: examples per step.
        epochs: passes over the training data.
        monitor: epoch to keep: the `last`, the one with the lowest dev `loss`, or with the highest nearest-neighbour
            accuracy on dev (`dev_accuracy`).
        patience: epochs without improvement after which a seed stops, unless `monitor` is `last`.
        precision: number format of the encoder's matrix products; `bfloat16` is autocast, weights stay float32.
        train_embeddings: train the encoder's token embeddings too.
        checkpoint_seconds: seconds between two checkpoints, which may come in the middle of an epoch.
    """

    learning_rate: Rate
    weight_decay: Decay = 0.0
    batch_size: Positive
    epochs: Positive
    monitor: Literal["last", "loss", "dev_accuracy"] = "last"
    patience: Positive = 2
    precision: Precision = "float32"
    train_embeddings: bool = True
    checkpoint_seconds: Seconds = 30.0

    @property
    def vector_map(self) -> Literal["linear", "mlp"] | None:
        """The map over frozen vectors that is tuned instead of the encoder; None: the encoder is tuned."""
        return None

    @property
    def unread(self) -> frozenset[Need]:
        """Data of the method that these settings leave out: the encoder, if a map over frozen vectors is trained."""
        return frozenset() if self.vector_map is None else frozenset({Need.ENCODER})

    @property
    def optimiser(self) -> OptimiserConfig:
        return OptimiserConfig(learning_rate=self.learning_rate, weight_decay=self.weight_decay)


@dataclass(frozen=True, kw_only=True)
class FineTunedMethod(SeedBySeedMethod[TuningConfig]):
    """A `Method` that fine-tunes an encoder, or a map over its vectors, one seed after another.

    `tasks(data, config, device)` reads the data once and returns a function that makes each seed's task.
    """

    trainer: Any = "disent_core.methods.families.seed_by_seed:FineTunedTrainer"
    tasks: Callable[[Any, Any, str], Callable[[int], Any]] | str

    def may_stop_early(self, settings: TuningConfig) -> bool:
        """Whether `patience` applies: if `monitor` is `last`, every epoch is run."""
        return settings.monitor != "last"


@dataclass(frozen=True, kw_only=True)
class FewShotConfig(Settings):
    """What a labeller trains on.

    Attributes:
        examples: training sentences of the target language; 0 for all of them.
        split: split to take the sentences from. A corpus such as xSID, which has no training sentences in most
            languages, is trained on its dev split, as in TWOSL's paper.
        sample: `random` draws the sentences uniformly; `cover_types` also covers as many slot
            types as their number allows.
        transfer: `sequential` trains on all sentences of the source language first.
        batch_size: sentences (or pairs or spans) per step.
        precision: number format of the encoder's matrix products; `bfloat16` is several times faster where the
            processor supports it. Weights stay float32.
        checkpoint_seconds: seconds between two checkpoints.
    """

    examples: NotNegative = 100
    split: Literal["train", "dev"] = "train"
    sample: Literal["random", "cover_types"] = "random"
    transfer: Literal["none", "sequential"] = "none"
    batch_size: Positive = 32
    precision: Precision = "float32"
    checkpoint_seconds: Seconds = 30.0


@dataclass(frozen=True, kw_only=True)
class TaggingMethod(SeedBySeedMethod[FewShotConfig]):
    """A `Method` that fine-tunes an encoder to tag slots; it has no embeddings.

    `kind` is the class of its taggers, a subclass of `families.tagger.Tagger`. In a training set `en-de`, the first
    language is the source, on which `transfer` sequential trains first; examples are drawn from the others, the target.
    A training set of one language has only a target. An epoch is a pass of one stage of one seed, and its loss is named
    after the stage.
    """

    trainer: Any = "disent_core.methods.families.tagger:TaggingTrainer"
    kind: type | str
    labels: bool = True

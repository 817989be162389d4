"""Define what a method is to the rest of the library: the same for a frozen head, a fine-tuned encoder and a tagger.

A method's module exports `METHOD`. The registry (`disent_core.heads`) names the modules of the library; the
configuration names a module from outside itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from disent_core.encoders.contract import EncoderFiles
from disent_core.settings import Settings
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch
from disent_core.training.needs import Need

EMBEDDINGS = ("sentence", "meaning", "template", "residual", "language")
"""Names that an embedding may have, which tasks and the warehouse know."""

Config = TypeVar("Config", bound=Settings)
"""The settings of a method."""


class TrainedMethod(ABC):
    """A method after training, with the weights of every seed."""

    @property
    def languages(self) -> Collection[str] | None:
        """Languages that it can embed; None: all."""
        return None

    @abstractmethod
    def embed(self, features: TextFeatures, seed: int | None) -> Mapping[str, Float[np.ndarray, "texts _"] | Any]:
        """Return one matrix per embedding name, one row a text, in order; or a late interaction of the texts."""


class TrainedLabeller(ABC):
    """A method after training that tags the slots of sentences, with the weights of every seed."""

    @property
    @abstractmethod
    def languages(self) -> Collection[str]:
        """Languages that it was trained on."""

    @abstractmethod
    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        """Return a BIO tag for every word of every sentence."""


@dataclass(frozen=True, kw_only=True)
class Method(ABC, Generic[Config]):
    """A system that turns the output of an encoder into embeddings, or into slot tags.

    A family of methods is a subclass that trains, saves and loads; a method is an instance of it.

    Attributes:
        name: name in the registry.
        presets: named settings, of which `paper` follows the paper.
        embeddings: names that `embed` returns, of `EMBEDDINGS`, in the order in which they are shown.
        needs: data that the method reads beyond the sentence vectors of utterances.
        labels: whether it tags the slots of sentences (`TrainedLabeller`).
        is_trained: False if there is nothing to fit, hence no weights.
        is_seeded: False if nothing is random: the method is then fitted once, and embeds with seed None.
        code_version: to be changed with every change of the code that changes results.
    """

    name: str
    presets: Mapping[str, Config]
    embeddings: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    labels: bool = False
    is_trained: bool = True
    is_seeded: bool = True
    code_version: str = "1"

    def __post_init__(self) -> None:
        if "paper" not in self.presets:
            raise ValueError(f"method {self.name!r} has no preset 'paper', the default")
        if not self.embeddings and not self.labels:
            raise ValueError(f"method {self.name!r} has no embeddings and does not tag, so nothing can be measured")
        if odd := [name for name, preset in self.presets.items() if not isinstance(preset, Settings)]:
            raise ValueError(f"method {self.name!r} has presets {odd} that are no Settings (disent_core.settings)")
        if odd := set(self.embeddings) - set(EMBEDDINGS):
            raise ValueError(f"method {self.name!r} has embeddings {sorted(odd)}; choose of {', '.join(EMBEDDINGS)}")

    def needs_of(self, settings: Config) -> frozenset[Need]:
        """Return the data that the method reads with these settings, which may be less than `needs`."""
        return self.needs

    def may_stop_early(self, settings: Config) -> bool:
        """Whether early stopping decides when training ends, so that a best epoch at the end is one cut short."""
        return False

    def most_epochs(self, settings: Config) -> int | None:
        """The largest number of epochs that `fit` can yield, if the settings say so."""
        return getattr(settings, "max_epochs", None)

    def without_warm_start(self, settings: Config) -> Config:
        """Return these settings for training from scratch."""
        return settings

    def starts_warm(self, settings: Config) -> bool:
        """Whether training starts from the weights of earlier training, which `fit` gets as `initial`."""
        return self.without_warm_start(settings) != settings

    @abstractmethod
    def fit(
        self,
        data: TrainingData,
        config: Config,
        seeds: Sequence[int],
        *,
        checkpoint: Path,
        device: str,
        run: str,
        initial: Path | None = None,
    ) -> Iterator[Epoch]:
        """Train every seed, yielding one epoch at a time. An interrupted run resumes from `checkpoint`.

        Args:
            data: training data.
            config: the settings.
            seeds: random seeds.
            checkpoint: file or folder of the training state; a checkpoint of another run is not used.
            device: `cpu` or `cuda`.
            run: fingerprint of everything that the weights depend on, the vectors of the texts included.
            initial: weights to start from, as `save` wrote them; given only if the settings ask for a warm start.
        """

    @abstractmethod
    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the best weights of a finished `checkpoint` to `path` and return their fingerprint."""

    @abstractmethod
    def load(
        self, path: Path, config: Config, device: str, encoder: EncoderFiles | None = None
    ) -> TrainedMethod | TrainedLabeller:
        """Read what `save` wrote, ready to embed or to label; an untrained method reads nothing from `path`.

        `encoder` is given if the method needs it.
        """

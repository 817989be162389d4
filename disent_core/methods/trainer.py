"""Define the interfaces of computation: a trainer, and the trained method, which embeds texts or tags slots."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from disent_core.encoders.contract import EncoderFiles
from disent_core.methods.contract import Method
from disent_core.registry import imported
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch, Fit

AnyMethod = TypeVar("AnyMethod", bound=Method[Any])  # a family of methods


class TrainedMethod(ABC):
    """A method after training, with the weights of every seed."""

    @property
    def languages(self) -> Collection[str] | None:
        return None

    @abstractmethod
    def embed(self, features: TextFeatures, seed: int | None) -> Mapping[str, Float[np.ndarray, "texts _"] | Any]:
        """Return by embedding name a matrix with one row per text, in order, or a late interaction of the texts."""


class TrainedLabeller(ABC):
    """A method after training that tags the slots of sentences, with the weights of every seed."""

    @property
    @abstractmethod
    def languages(self) -> Collection[str]:
        """Languages of its training."""

    @abstractmethod
    def label(self, sentences: Sequence[Sequence[str]], language: str, seed: int | None) -> list[list[str]]:
        """Return a BIO tag for every word of every sentence."""


@dataclass(frozen=True)
class Trainer(ABC, Generic[AnyMethod]):
    """Trains, saves and loads a method; each family of methods has a subclass."""

    method: AnyMethod

    @abstractmethod
    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Train every seed of the run with these settings, and yield one epoch at a time."""

    @abstractmethod
    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the best weights of a finished `checkpoint` to `path` and return their fingerprint."""

    @abstractmethod
    def load(
        self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None
    ) -> TrainedMethod | TrainedLabeller:
        """Read what `save` wrote, ready to embed or to label; an untrained method reads nothing from `path`."""


def trainer(method: Method[Any]) -> Trainer[Any]:
    """Return the trainer of a method; this imports the libraries it computes with."""
    return imported(method.trainer)(method)

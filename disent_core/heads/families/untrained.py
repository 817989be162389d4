"""Methods without training: the output of the frozen encoder, compared in some way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.contract import Config, Method, TrainedMethod
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch


@dataclass(frozen=True, kw_only=True)
class UntrainedMethod(Method[Config], Generic[Config]):
    """A `Method` without weights: `sentence(features, config)` returns its only embedding, `sentence`."""

    sentence: Callable[[TextFeatures, Config], Any]
    embeddings: tuple[str, ...] = ("sentence",)
    is_trained: bool = False
    is_seeded: bool = False

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
        """No epochs."""
        return iter(())

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        """There are no weights.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.name} has no weights to save")

    def load(self, path: Path, config: Config, device: str, encoder: EncoderFiles | None = None) -> "Untrained[Config]":
        """Return the method with its settings; nothing is read."""
        return Untrained(self, config)


@dataclass(frozen=True)
class Untrained(TrainedMethod, Generic[Config]):
    """An untrained method, ready to embed."""

    method: UntrainedMethod[Config]
    config: Config

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, Any]:
        """Return its embedding of the texts; the seed is ignored."""
        return {"sentence": self.method.sentence(features, self.config)}

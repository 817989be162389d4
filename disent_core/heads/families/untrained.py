"""Methods without training: the output of the frozen encoder, compared in some way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.contract import TrainedMethod, Trainer
from disent_core.methods.families import UntrainedMethod
from disent_core.registry import imported
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch


class UntrainedTrainer(Trainer[UntrainedMethod[Any]]):
    """The trainer of methods without weights, which has nothing to train."""

    def fit(
        self,
        data: TrainingData,
        config: Any,
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
        raise ValueError(f"{self.method.name} has no weights to save")

    def load(self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None) -> "Untrained":
        """Return the method with its settings; nothing is read."""
        return Untrained(imported(self.method.sentence), config)


@dataclass(frozen=True)
class Untrained(TrainedMethod):
    """An untrained method, ready to embed."""

    sentence: Callable[[TextFeatures, Any], Any]
    config: Any

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, Any]:
        """Return its embedding of the texts; the seed is ignored."""
        return {"sentence": self.sentence(features, self.config)}

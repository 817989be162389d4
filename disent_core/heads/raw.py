"""`raw`: the encoder's own sentence vector, untouched. The baseline that every head has to beat."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.contract import Epoch, Need
from disent_core.heads.data import TextFeatures, TrainingData


@dataclass(frozen=True, kw_only=True)
class RawConfig:
    """Nothing to set: pooling and layer belong to the encoder."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Raw:
    """A `Method` without training; its one embedding is `sentence`."""

    name: str = "raw"
    presets: Mapping[str, RawConfig]
    embeddings: tuple[str, ...] = ("sentence",)
    needs: frozenset[Need] = frozenset()
    code_version: str = "1"
    labels: bool = False
    is_trained: bool = False
    is_seeded: bool = False

    def fit(
        self, data: TrainingData, config: RawConfig, seeds: Sequence[int], *, checkpoint: Path, device: str, run: str
    ) -> Iterator[Epoch]:
        """No epochs."""
        return iter(())

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        """There are no weights.

        Raises:
            ValueError: always.
        """
        raise ValueError("raw has no weights to save")

    def load(self, path: Path, config: RawConfig, device: str, encoder: EncoderFiles | None = None) -> "Raw":
        """Itself; nothing is read."""
        return self

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """The encoder's sentence vectors, float32."""
        blocks = [batch["vectors"] for batch in features.batches(8192, "cpu")]
        return {"sentence": torch.cat(blocks).numpy()}


METHOD = Raw(presets={"paper": RawConfig()})

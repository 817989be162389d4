"""Methods without randomness: those without training, and those whose weights are the solution of a formula."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError
from disent_core.methods.families import ClosedFormMethod, UntrainedMethod
from disent_core.methods.trainer import TrainedMethod, Trainer
from disent_core.registry import imported
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import read_checkpoint, read_weights, save_weights, write_checkpoint
from disent_core.training.data import TextFeatures, TrainingData, VectorBank
from disent_core.training.epoch import Epoch, Fit
from disent_core.training.needs import SIDES
from disent_core.training.stacked import accuracy_by_pair


class UntrainedTrainer(Trainer[UntrainedMethod[Any]]):
    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        return iter(())

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        raise ValueError(f"{self.method.name} has no weights to save")

    def load(self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None) -> "Untrained":
        return Untrained(imported(self.method.sentence), config)


@dataclass(frozen=True)
class Untrained(TrainedMethod):
    sentence: Callable[[TextFeatures, Any], Any]
    config: Any

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, Any]:
        return {"sentence": self.sentence(features, self.config)}


# --- closed forms -----------------------------------------------------------------------------------------

BLOCK_ROWS = 1 << 16  # vectors held in memory in float64 at once while solving
Solution = Mapping[str, Tensor]  # tensors of the solution, in float64, by name: `<what>.<language>`
Apply = Callable[[Solution, Float64[Tensor, "texts dim"], str, Any], Float64[Tensor, "texts dim"]]
"""Function from a solution, vectors, their language and the settings to embeddings."""


class ClosedFormTrainer(Trainer[ClosedFormMethod[Any]]):
    @property
    def apply(self) -> Apply:
        return imported(self.method.apply)

    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Yield one epoch: `total` is the mean cosine distance of dev pairs, `accuracy_at_1` is of their retrieval."""
        identity = fingerprint(run.inputs, self.method.name, self.method.code_version)
        saved, count = read_checkpoint(run.checkpoint, identity), len(run.seeds)
        if saved is not None:
            dev, seconds = saved[0]["dev"], saved[0]["seconds"]
        else:
            started = time.monotonic()
            solution = imported(self.method.solve)(data, config)
            dev = {name: [value] * count for name, value in self._dev_terms(solution, data, config).items()}
            seconds = time.monotonic() - started
            write_checkpoint(run.checkpoint, identity, {"dev": dev, "seconds": seconds}, solution)
        terms = {"dev": {name: tuple(values) for name, values in dev.items()}}
        yield Epoch(1, tuple(run.seeds), terms, (True,) * count, 1, seconds, is_replayed=saved is not None)

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        return save_weights(
            path, dict(sorted(load_file(checkpoint).items())), {**description, "method": self.method.name}
        )

    def load(self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None) -> "Solved":
        """Read the solution that `save` wrote; it is applied on the CPU."""
        return Solved(self.apply, read_weights(path)[0], config)

    def _dev_terms(self, solution: Solution, data: TrainingData, config: Any) -> dict[str, float]:
        pairs = data.splits["dev"]
        if not len(pairs):
            raise TrainingError(
                f"{self.method.name}: there are no dev pairs to measure it on. Give the corpus a dev split"
            )
        apply, sides = self.apply, []
        for side in SIDES:
            vectors = data.vectors.take(pairs.text[side]).double()
            masks = [(pairs.language[side] == label, language) for label, language in enumerate(data.languages)]
            present = [(rows, language) for rows, language in masks if rows.any()]
            embedded = torch.cat([apply(solution, vectors[rows], language, config) for rows, language in present])
            order = torch.cat([rows.nonzero().squeeze(1) for rows, _ in present]).argsort()  # back to order of pairs
            sides.append(F.normalize(embedded[order], dim=1))
        source, target = sides
        return {
            "total": float(1 - (source * target).sum(1).mean()),
            "accuracy_at_1": accuracy_by_pair(source, target, pairs.language_pair),
        }


@dataclass(frozen=True)
class Solved(TrainedMethod):
    apply: Apply
    solution: Solution
    config: Any

    @property
    def languages(self) -> frozenset[str]:
        """Languages that the solution covers; it can embed no others."""
        return frozenset(name.partition(".")[2] for name in self.solution)

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """Return the `sentence` embedding, float32; the seed is ignored."""
        vectors = features.vectors.take(features.rows).double()
        embedded = self.apply(self.solution, vectors, features.language, self.config)
        return {"sentence": embedded.float().numpy()}


def part(solution: Solution, what: str, language: str) -> Tensor:
    if (name := f"{what}.{language}") not in solution:
        languages = sorted(key.removeprefix(f"{what}.") for key in solution if key.startswith(f"{what}."))
        remedy = "Train it on a pair that has this language"
        raise TrainingError(f"this head has no {what} of {language!r}, only of {', '.join(languages)}. {remedy}")
    return solution[name]


def mean_vector(bank: VectorBank, rows: Int[Tensor, " rows"]) -> Float64[Tensor, " dim"]:
    """Return the mean of some vectors, summed in float64."""
    total = sum(bank.take(block).double().sum(0) for block in rows.split(BLOCK_ROWS))
    return torch.as_tensor(total / len(rows))

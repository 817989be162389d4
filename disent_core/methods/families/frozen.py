"""Methods that train a head on frozen embeddings, such as DREAM and FMDA."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disent_core.encoders.contract import EncoderFiles
from disent_core.methods.families import FrozenHeadMethod
from disent_core.methods.trainer import TrainedMethod, Trainer, filled
from disent_core.registry import imported
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import describe_weights, read_weights, save_weights
from disent_core.training.config import TrainConfig
from disent_core.training.data import TextFeatures, TrainingData, embedded
from disent_core.training.epoch import Epoch, Fit
from disent_core.training.needs import Need
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import Head, Parameters, best_parameters, fit


class FrozenHeadTrainer(Trainer[FrozenHeadMethod[Any]]):
    @property
    def head(self) -> Callable[[int, int, Any], Head]:
        return imported(self.method.head)

    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Train every seed at once; see `disent_core.training.stacked.fit`."""
        return self.fit_from(None if run.initial is None else _weights(run.initial, "cpu")[1], data, config, run)

    def fit_from(
        self, initial: Mapping[int, Parameters] | None, data: TrainingData, config: TrainConfig, run: Fit
    ) -> Iterator[Epoch]:
        method = self.method
        sampler = PairSampler(
            data,
            states=Need.TOKEN_STATES in method.needs,
            masked=Need.MASKED_TARGETS in method.needs,
            draws=method.draws(config) if callable(method.draws) else method.draws,
        )
        inputs = fingerprint(run.inputs, method.name, method.code_version, data.dim, data.languages)
        build = partial(self.head, data.dim, len(data.languages), config)
        return fit(build, sampler, config, replace(run, inputs=inputs), initial)

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        by_seed = best_parameters(checkpoint)
        tensors = {f"{seed}.{name}": by_seed[seed][name] for seed in by_seed for name in sorted(by_seed[seed])}
        return save_weights(path, tensors, {**description, "method": self.method.name})

    def load(self, path: Path, config: Any, device: str, encoder: EncoderFiles | None = None) -> "TrainedHead":
        description, by_seed = _weights(path, device)
        heads: dict[int, Head] = {}
        for seed, parameters in by_seed.items():
            build = partial(self.head, description["dim"], len(description["languages"]), config)
            heads[seed] = filled(path, build, parameters).to(device)
        return TrainedHead(heads, device)


def _weights(path: Path, device: str) -> tuple[dict[str, Any], dict[int, Parameters]]:
    description, _ = describe_weights(path)
    return description, {seed: read_weights(path, seed, device)[0] for seed in description["seeds"]}


@dataclass(frozen=True)
class TrainedHead(TrainedMethod):
    heads: Mapping[int, Head]
    device: str

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        if seed is None:
            raise ValueError("a trained head embeds with one of its seeds, not None")
        with torch.inference_mode():
            return embedded(lambda batch, _: self.heads[seed].embed(batch), features, self.device)

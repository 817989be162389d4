"""Methods that train a head on frozen embeddings, such as DREAM and FMDA."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.contract import Method, TrainedMethod
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import describe_weights, read_weights, save_weights
from disent_core.training.config import TrainConfig
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch
from disent_core.training.needs import Draw, Need
from disent_core.training.sampling import PairSampler
from disent_core.training.stacked import Head, best_parameters, fit
from disent_core.training.stacked_state import Parameters

_EMBED_BATCH = 1024

HeadConfig = TypeVar("HeadConfig", bound=TrainConfig)
"""The settings of a head."""


def sum_of_means(rows: Iterable[Float[Tensor, " _"]]) -> Float[Tensor, ""]:
    """Mean over the pairs of each side's values, summed over the sides."""
    return torch.stack([values.mean() for values in rows]).sum()


@dataclass(frozen=True, kw_only=True)
class FrozenHeadMethod(Method[HeadConfig], Generic[HeadConfig]):
    """A `Method` whose head is a small module over the vectors (and token states) of a frozen encoder.

    `head(dim, n_languages, config)` makes a head with fresh parameters; `draws` are the random texts that it trains on,
    which may depend on the config.
    """

    head: Callable[[int, int, HeadConfig], Head]
    draws: tuple[Draw, ...] | Callable[[HeadConfig], tuple[Draw, ...]] = ()

    def may_stop_early(self, settings: HeadConfig) -> bool:
        """True, as all heads have a `patience`; but with a `schedule` the last epochs are meant to be the best."""
        return getattr(settings, "schedule", "constant") == "constant"

    def without_warm_start(self, settings: HeadConfig) -> HeadConfig:
        """Return the settings for random initial weights."""
        return replace(settings, warm_start=False)

    def fit(
        self,
        data: TrainingData,
        config: HeadConfig,
        seeds: Sequence[int],
        *,
        checkpoint: Path,
        device: str,
        run: str,
        initial: Path | None = None,
    ) -> Iterator[Epoch]:
        """Train every seed at once; see `disent_core.training.stacked.fit`."""
        weights = None if initial is None else _weights(initial, "cpu")[1]
        return self.fit_from(weights, data, config, seeds, checkpoint=checkpoint, device=device, run=run)

    def fit_from(
        self,
        initial: Mapping[int, Parameters] | None,
        data: TrainingData,
        config: HeadConfig,
        seeds: Sequence[int],
        *,
        checkpoint: Path,
        device: str,
        run: str,
    ) -> Iterator[Epoch]:
        """Train from parameters in memory."""
        sampler = PairSampler(
            data,
            states=Need.TOKEN_STATES in self.needs,
            masked=Need.MASKED_TARGETS in self.needs,
            draws=self.draws(config) if callable(self.draws) else self.draws,
        )
        return fit(
            lambda: self.head(data.dim, len(data.languages), config),
            sampler,
            config,
            seeds,
            checkpoint=checkpoint,
            device=device,
            run=fingerprint(run, self.name, self.code_version, data.dim, data.languages),
            initial=initial,
        )

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        """Write the best weights of every seed as safetensors with a description; returns their hash."""
        by_seed = best_parameters(checkpoint)
        tensors = {
            f"{seed}.{name}": value
            for seed, parameters in by_seed.items()
            for name, value in sorted(parameters.items())
        }
        return save_weights(path, tensors, {**description, "method": self.name})

    def load(self, path: Path, config: HeadConfig, device: str, encoder: EncoderFiles | None = None) -> "TrainedHead":
        """Read the heads of all seeds that `save` wrote."""
        description, by_seed = _weights(path, device)
        heads: dict[int, Head] = {}
        for seed, parameters in by_seed.items():
            head = self.head(description["dim"], len(description["languages"]), config).to(device)
            head.load_state_dict(parameters)
            heads[seed] = head.eval()
        return TrainedHead(heads, device)


def _weights(path: Path, device: str) -> tuple[dict[str, Any], dict[int, Parameters]]:
    """Read the description of a file and the weights of each seed."""
    description, _ = describe_weights(path)
    return description, {seed: read_weights(path, seed, device)[0] for seed in description["seeds"]}


@dataclass(frozen=True)
class TrainedHead(TrainedMethod):
    """The trained heads of all seeds."""

    heads: Mapping[int, Head]
    device: str

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """Return one float32 matrix per embedding name, one row a text, in order."""
        if seed is None:
            raise ValueError("a trained head embeds with one of its seeds, not None")
        with torch.inference_mode():
            blocks = [self.heads[seed].embed(batch) for batch in features.batches(_EMBED_BATCH, self.device)]
        return {name: torch.cat([block[name] for block in blocks]).cpu().numpy() for name in blocks[0]}

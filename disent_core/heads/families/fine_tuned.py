"""Methods that `tuning.fit` trains, from their settings to their files: EMU, its baselines, and `tuned`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable_map import Source, TunableEncoder, VectorMap, embed_all
from disent_core.errors import TrainingError, located
from disent_core.heads.contract import Method, TrainedMethod
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import save_weights
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.epoch import Epoch
from disent_core.training.needs import Need
from disent_core.training.stepwise import Trainee, TuningConfig, best_of, fit


def open_source(config: Any, dim: int, encoder: EncoderFiles | None, device: str) -> Source:
    """What a configuration tunes: a map over frozen vectors where its `tune` is `head`, else the encoder."""
    if _is_map(config):
        return VectorMap(dim, config.map).to(device)
    return open_encoder(config, encoder, device)


def _is_map(config: Any) -> bool:
    return getattr(config, "tune", "encoder") == "head"


def open_encoder(config: TuningConfig, encoder: EncoderFiles | None, device: str) -> TunableEncoder:
    """The encoder, to be tuned.

    Raises:
        TrainingError: if there is none.
        EncoderError: if it can't be loaded.
    """
    if encoder is None:
        raise TrainingError("there is no encoder to tune. Give one, or set tune = 'head' where the method has it")
    return TunableEncoder(encoder, device, precision=config.precision, train_embeddings=config.train_embeddings)


@dataclass(frozen=True, kw_only=True)
class TuningMethod(Method[TuningConfig]):
    """A `Method` that tunes an encoder, or a map over its vectors.

    `trainees(data, config, device)` reads the data once and gives what makes each seed's trainee.
    """

    trainees: Callable[[TrainingData, Any, str], Callable[[int], Trainee]]
    needs: frozenset[Need] = frozenset({Need.UTTERANCES, Need.ENCODER})

    def needs_of(self, settings: TuningConfig) -> frozenset[Need]:
        """What the method reads as it is configured: no encoder where it tunes a map over frozen vectors."""
        return self.needs - {Need.ENCODER} if _is_map(settings) else self.needs

    def may_stop_early(self, settings: TuningConfig) -> bool:
        """Where `patience` counts: the last epoch is kept whatever it brings if `monitor` is `last`."""
        return settings.monitor != "last"

    def fit(
        self,
        data: TrainingData,
        config: TuningConfig,
        seeds: Sequence[int],
        *,
        checkpoint: Path,
        device: str,
        run: str,
        initial: Path | None = None,
    ) -> Iterator[Epoch]:
        """Train one seed after another; see `disent_core.training.stepwise.fit`."""
        encoder = None if data.encoder is None else data.encoder.fingerprint
        return fit(
            self.trainees(data, config, device),
            config,
            seeds,
            checkpoint=checkpoint,
            run=fingerprint(run, self.name, self.code_version, data.dim, data.languages, encoder),
        )

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        """Write what every seed keeps, as safetensors that say what they are; returns their hash."""
        return save_weights(path, best_of(checkpoint), {**description, "method": self.name})

    def load(self, path: Path, config: TuningConfig, device: str, encoder: EncoderFiles | None = None) -> "Tuned":
        """What `save` wrote; a seed's weights are read when it first embeds.

        Raises:
            TrainingError: if they are of another encoder.
        """
        with safe_open(path, framework="pt") as file:
            description = json.loads(file.metadata()["disent"])
        known = description.get("encoder_fingerprint")
        if encoder is not None and known is not None and encoder.fingerprint != known:
            remedy = "Train it again on this one"
            raise TrainingError(located(path, None, "these weights belong to another encoder", remedy))
        source = open_source(config, description["dim"], encoder, device)
        return Tuned(path, source, self.embeddings[0])


class Tuned(TrainedMethod):
    """What was tuned, with the weights of one seed at a time: an encoder is large."""

    def __init__(self, path: Path, source: Source, embedding: str) -> None:
        self.path, self.source, self.embedding = path, source, embedding
        self._seed: int | None = None

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """Its one embedding of the texts, float32, in order.

        Raises:
            ValueError: if there is no seed, or an encoder is to embed and there are no texts.
        """
        if seed is None:
            raise ValueError("what was tuned embeds with one of its seeds, not None")
        if seed != self._seed:
            self._read(seed)
        found = embed_all(self.source, self._inputs(features), torch.arange(len(features)))
        return {self.embedding: found.float().cpu().numpy()}

    def _inputs(self, features: TextFeatures) -> Any:
        if isinstance(self.source, VectorMap):
            return features.vectors.take(features.rows).to(next(self.source.parameters()).device)
        if features.texts is None:
            raise ValueError("a tuned encoder reads texts, and these features have none")
        return self.source.prepare(features.texts)

    @torch.no_grad()
    def _read(self, seed: int) -> None:
        with safe_open(self.path, framework="pt") as file:
            for name, value in self.source.named_parameters():
                if value.requires_grad:
                    value.copy_(file.get_tensor(f"{seed}.{name}"))
        self._seed = seed

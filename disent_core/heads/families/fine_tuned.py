"""Methods that fine-tune an encoder, or a map over its vectors, to one embedding: EMU, its baselines, `fine_tuned`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import Source, TunableEncoder, VectorMap, check_origin
from disent_core.errors import TrainingError
from disent_core.heads.contract import TrainedMethod
from disent_core.heads.families.seed_by_seed import SeedBySeedTrainer, SeedTraining
from disent_core.methods.families import FineTunedMethod, TuningConfig
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import TrainingRun, TrainingTask, train
from disent_core.registry import imported
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.blocks import by_rows
from disent_core.training.data import Batch, TextFeatures, TrainingData


class FineTuningTask(TrainingTask[Batch]):
    """Training of one seed. Only `source` is kept; classifiers and discriminators are needed in training alone.

    `rows` of a batch has one value per example.
    """

    source: Source

    def kept(self) -> dict[str, Tensor]:
        """Return the trained parameters that embedding texts needs."""
        return {name: value for name, value in self.source.named_parameters() if value.requires_grad}


def open_source(config: TuningConfig, dim: int, encoder: EncoderFiles | None, device: str) -> Source:
    """Return the module that a configuration fine-tunes: a map over frozen vectors, or the encoder."""
    if config.vector_map is not None:
        return VectorMap(dim, config.vector_map).to(device)
    return open_encoder(config, encoder, device)


def open_encoder(
    config: TuningConfig, encoder: EncoderFiles | None, device: str, *, recompute: bool = False
) -> TunableEncoder:
    """Return the encoder, to be fine-tuned.

    Raises:
        TrainingError: if there is none.
        EncoderError: if it can't be loaded.
    """
    if encoder is None:
        raise TrainingError("there is no encoder to tune. Give one, or set tune = 'head' where the method has it")
    return TunableEncoder(
        encoder,
        device,
        precision=config.precision,
        train_embeddings=config.train_embeddings,
        recompute=recompute,
    )


class FineTunedTrainer(SeedBySeedTrainer[FineTunedMethod]):
    """The trainer of methods that fine-tune an encoder, or a map over its vectors, to one embedding."""

    def prepare(self, data: TrainingData, config: TuningConfig, device: str) -> Callable[[TrainingRun], SeedTraining]:
        """Tokenise texts, or gather vectors, once for all seeds."""
        build = imported(self.method.tasks)(data, config, device)

        def start(run: TrainingRun) -> SeedTraining:
            with seeded(derived_seed(run.seed, "start")):
                task = build(run.seed)
            seed_run = replace(
                run,
                epochs=config.epochs,
                monitor=config.monitor,
                patience=config.patience,
                checkpoint_seconds=config.checkpoint_seconds,
            )
            return SeedTraining(train(task, seed_run), task.kept, {})

        return start

    def load(self, path: Path, config: TuningConfig, device: str, encoder: EncoderFiles | None = None) -> "FineTuned":
        """Read what `save` wrote; a seed's weights are read when it first embeds.

        Raises:
            TrainingError: if the weights are of another encoder.
        """
        description, _ = describe_weights(path)
        if encoder is not None:
            check_origin(path, description, encoder)
        source = open_source(config, description["dim"], encoder, device)
        return FineTuned(path, source, self.method.embeddings[0])


class FineTuned(TrainedMethod):
    """A fine-tuned encoder or map with the weights of one seed in memory, because an encoder is large."""

    def __init__(self, path: Path, source: Source, embedding: str) -> None:
        self.path, self.source, self.embedding = path, source, embedding
        self._seed: int | None = None

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """Return its embedding of the texts, float32, in order.

        Raises:
            ValueError: if there is no seed, or an encoder has to embed and there are no texts.
        """
        embedded = self._embedded(self.with_weights_of(seed), features)
        return {self.embedding: embedded.float().cpu().numpy()}

    def with_weights_of(self, seed: int | None) -> Source:
        """Return the encoder or map with the weights of a seed, until another seed is asked for.

        Raises:
            ValueError: if there is no seed.
        """
        if seed is None:
            raise ValueError("a fine-tuned method embeds with one of its seeds, not None")
        if seed != self._seed:
            self._read(seed)
        return self.source

    @torch.no_grad()
    def _embedded(self, source: Source, features: TextFeatures) -> Float[Tensor, "texts dim"]:
        if isinstance(source, VectorMap):
            vectors = features.vectors.take(features.rows).to(next(source.parameters()).device)
            return by_rows(lambda rows: source(rows, torch.arange(len(rows))), vectors)
        if features.texts is None:
            raise ValueError("a fine-tuned encoder reads texts, and these features have none")
        return source.embed(features.texts)

    @torch.no_grad()
    def _read(self, seed: int) -> None:
        weights, _ = read_weights(self.path, seed)
        for name, value in self.source.named_parameters():
            if value.requires_grad:
                value.copy_(weights[name])
        self._seed = seed

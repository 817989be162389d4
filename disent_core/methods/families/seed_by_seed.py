"""Methods that train one seed after another, because a model is too large, or too irregular, for a stack of seeds.

`FineTunedTrainer` fine-tunes an encoder, or a map over its vectors, to one embedding: EMU, its baselines, `fine_tuned`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import Source, TunableEncoder, VectorMap, check_origin
from disent_core.errors import TrainingError
from disent_core.methods.families import FineTunedMethod, TuningConfig
from disent_core.methods.trainer import AnyMethod, TrainedMethod, Trainer
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import EpochReport, TrainingRun, TrainingTask, train
from disent_core.registry import imported
from disent_core.storage.results import remove_results
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import describe_weights, merge_weights, read_weights, require_shapes, save_weights
from disent_core.training.data import Batch, TextFeatures, TrainingData, in_fixed_shapes
from disent_core.training.epoch import Epoch, Fit


class SeedBySeedTrainer(Trainer[AnyMethod]):
    """The trainer of any model that is trained one seed after another, with a task for each seed."""

    @abstractmethod
    def tasks(self, data: TrainingData, config: Any, device: str) -> Callable[[int], Any]:
        """Read the data once and return a function that makes each seed's task.

        A task's draws from the global generator depend only on its seed.
        """

    def reports(self, task: Any, config: Any, run: TrainingRun) -> Iterator[EpochReport]:
        """Train a task in place; `run` has identity, seed and checkpoint, the settings have the rest."""
        names = ("epochs", "monitor", "patience", "checkpoint_seconds")
        return train(task, replace(run, **{name: getattr(config, name) for name in names if hasattr(config, name)}))

    def weights(self, task: Any) -> Mapping[str, Tensor]:
        """Return the weights to keep of a trained task."""
        return task.kept()

    def description(self, task: Any, data: TrainingData) -> Mapping[str, Any]:
        """Return what is saved with the weights of a seed."""
        return {}

    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Train every seed; see `disent_core.optimisation.steps.train`."""
        method = self.method
        build, folder, steps = self.tasks(data, config, run.device), run.checkpoint.with_suffix(""), 0
        settings = {**asdict(config), "checkpoint_seconds": 0.0}
        encoder = None if data.encoder is None else data.encoder.fingerprint
        identity = fingerprint(
            run.inputs, method.name, method.code_version, settings, data.dim, data.languages, encoder
        )
        for seed in run.seeds:
            with seeded(derived_seed(seed, "start")):
                task = build(seed)
            checkpoint = folder / str(seed) / "training.safetensors"
            reports = self.reports(task, config, TrainingRun(identity=identity, seed=seed, checkpoint=checkpoint))
            stage, before = "", steps
            for number, report in enumerate(reports, start=1):
                if report.stage != stage:  # epochs are numbered across stages, but each stage counts its steps from 0
                    stage, before = report.stage, steps
                steps, of_splits = before + report.steps, report.terms.items()
                terms = {split: {name: (value,) for name, value in means.items()} for split, means in of_splits}
                if stage:  # its loss is also a term of its name
                    terms["train"] = {stage: terms["train"]["total"], **terms["train"]}
                replayed = report.is_replayed
                yield Epoch(number, (seed,), terms, (report.is_best,), steps, report.seconds, is_replayed=replayed)
            save_weights(folder / f"{seed}.safetensors", self.weights(task), self.description(task, data))

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the weights of every seed, delete the checkpoints, and return the fingerprint of the weights."""
        folder = checkpoint.with_suffix("")
        parts = {seed: folder / f"{seed}.safetensors" for seed in description["seeds"]}
        content = merge_weights(parts, path, {**description, "method": self.method.name})
        remove_results(folder)
        return content


class FineTuningTask(TrainingTask[Batch]):
    """Training of one seed. Only `source` is kept; classifiers and discriminators are needed only in training.

    `rows` of a batch has one value per example.
    """

    source: Source

    def kept(self) -> dict[str, Tensor]:
        """Return the trained parameters needed to embed texts."""
        return {name: value for name, value in self.source.named_parameters() if value.requires_grad}


def open_source(
    config: TuningConfig, dim: int, encoder: EncoderFiles | None, device: str, *, recompute: bool = False
) -> Source:
    """Return the module that a configuration fine-tunes: a map over frozen vectors, or the encoder."""
    if config.vector_map is not None:
        return VectorMap(dim, config.vector_map).to(device)
    if encoder is None:
        raise TrainingError("there is no encoder to tune. Give one, or set tune = 'head' if the method has it")
    embeddings = config.train_embeddings
    return TunableEncoder(encoder, device, precision=config.precision, train_embeddings=embeddings, recompute=recompute)


MakeTask = Callable[[Source, Any, int], FineTuningTask]


def tuning_tasks(
    make: MakeTask, data: TrainingData, texts: Sequence[str], rows: Int[Tensor, " texts"], config: Any, device: str
) -> Callable[[int], FineTuningTask]:
    """Return a function that makes each seed's task of its source, the inputs of all texts, and the seed.

    Texts are tokenised, or the `rows` of their frozen vectors gathered, only once.
    """
    prepared: list[Any] = []

    def build(seed: int) -> FineTuningTask:
        source = open_source(config, data.dim, data.encoder, device, recompute=getattr(config, "gradient_cache", False))
        if not prepared:
            is_map = isinstance(source, VectorMap)
            prepared.append(data.vectors.take(rows).to(device) if is_map else source.prepare(texts))
        return make(source, prepared[0], seed)

    return build


class FineTunedTrainer(SeedBySeedTrainer[FineTunedMethod]):
    """The trainer of methods that fine-tune an encoder, or a map over its vectors, to one embedding."""

    def tasks(self, data: TrainingData, config: TuningConfig, device: str) -> Callable[[int], FineTuningTask]:
        return imported(self.method.tasks)(data, config, device)

    def load(self, path: Path, config: TuningConfig, device: str, encoder: EncoderFiles | None = None) -> "FineTuned":
        description, _ = describe_weights(path)
        if encoder is not None:
            check_origin(path, description, encoder)
        if config.vector_map is not None:
            last, width = "map.weight" if config.vector_map == "linear" else "map.2.weight", description["dim"]
            require_shapes(path, read_weights(path, description["seeds"][0])[0], {last: (width, width)})
        source = open_source(config, description["dim"], encoder, device)
        return FineTuned(path, source, self.method.embeddings[0])


class FineTuned(TrainedMethod):
    """A fine-tuned encoder or map with the weights of one seed in memory, because an encoder is large."""

    def __init__(self, path: Path, source: Source, embedding: str) -> None:
        self.path, self.source, self.embedding = path, source, embedding
        self._seed: int | None = None

    @torch.no_grad()
    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        source = self.with_weights_of(seed)
        if isinstance(source, VectorMap):
            vectors = features.vectors.take(features.rows).to(next(source.parameters()).device)
            embedded = in_fixed_shapes(lambda rows: source(rows, torch.arange(len(rows))), vectors)
        elif features.texts is None:
            raise ValueError("a fine-tuned encoder reads texts, and these features have none")
        else:
            embedded = source.embed(features.texts)
        return {self.embedding: embedded.float().cpu().numpy()}

    @torch.no_grad()
    def with_weights_of(self, seed: int | None) -> Source:
        """Return the encoder or map with the weights of a seed; valid until another seed is requested."""
        if seed is None:
            raise ValueError("a fine-tuned method embeds with one of its seeds, not None")
        if seed != self._seed:
            weights, _ = read_weights(self.path, seed)
            trained = {name: value for name, value in self.source.named_parameters() if value.requires_grad}
            require_shapes(self.path, weights, {name: value.shape for name, value in trained.items()})
            for name, value in trained.items():
                value.copy_(weights[name])
            self._seed = seed
        return self.source

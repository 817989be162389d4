"""Methods that train one seed after another, because the model is too large, or too irregular, for a stack of seeds."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from disent_core.heads.contract import AnyMethod, Trainer
from disent_core.optimisation.steps import EpochReport, TrainingRun
from disent_core.storage.checksums import remove_all_below
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import merge_weights, save_weights
from disent_core.training.data import TrainingData
from disent_core.training.epoch import Epoch, epochs_of_seed


@dataclass(frozen=True)
class SeedTraining:
    """The training of one seed; iterating over `reports` trains it.

    After that `weights` returns the weights to keep; `description` is saved with them.
    """

    reports: Iterator[EpochReport]
    weights: Callable[[], Mapping[str, Tensor]]
    description: Mapping[str, Any]


class SeedBySeedTrainer(Trainer[AnyMethod]):
    """The trainer of an encoder, or of a map over its vectors, one seed after another."""

    @abstractmethod
    def prepare(self, data: TrainingData, config: Any, device: str) -> Callable[[TrainingRun], SeedTraining]:
        """Read the data once and return a function that starts the training of a seed.

        Its argument has identity, seed and checkpoint; epochs and checkpoint_seconds come from the settings.
        """

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
        """Train every seed; see `disent_core.optimisation.steps.train`.

        Raises:
            TrainingError: if there is too little to train on, or a loss is not finite.
            EncoderError: if the encoder can't be fine-tuned.
        """
        method = self.method
        start, folder, steps = self.prepare(data, config, device), _folder(checkpoint), 0
        settings = {**asdict(config), "checkpoint_seconds": 0.0}
        encoder = None if data.encoder is None else data.encoder.fingerprint
        identity = fingerprint(run, method.name, method.code_version, settings, data.dim, data.languages, encoder)
        for seed in seeds:
            checkpoint = folder / str(seed) / "training.safetensors"
            training = start(TrainingRun(identity=identity, seed=seed, checkpoint=checkpoint))
            for epoch in epochs_of_seed(training.reports, seed, steps):
                steps = epoch.steps
                yield epoch
            save_weights(folder / f"{seed}.safetensors", training.weights(), training.description)

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, Any]) -> str:
        """Write the weights of every seed and delete the checkpoints; returns the fingerprint of the weights."""
        parts = {seed: _folder(checkpoint) / f"{seed}.safetensors" for seed in description["seeds"]}
        content = merge_weights(parts, path, {**description, "method": self.method.name})
        remove_all_below(_folder(checkpoint))
        return content


def _folder(checkpoint: Path) -> Path:
    """Folder of the checkpoints and of the weights of finished seeds."""
    return checkpoint.with_suffix("")

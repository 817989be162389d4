"""Declare the training settings shared by all heads on frozen embeddings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt

from disent_core.settings import OF_PUBLISHED_CODE, Decay, Factor, Positive, Precision, Rate, Seconds, Seed, Settings

CONVERGED: Any = {"learning_rate": 1e-3, "max_epochs": 1000, "patience": 15}
"""Settings of the presets `converged`: train a linear head on thousands of pairs until the dev loss ends training.

The papers' learning rates suit corpora 100 times as large; with them, `max_epochs` would end training here.
"""


SPACE: Mapping[str, tuple[Any, ...]] = {
    "learning_rate": (1e-4, 3e-4, 1e-3, 3e-3),
    "batch_size": (128, 256, 512, 1024),
    "patience": (5, 10, 15),
}
"""Values that a settings search draws from, for every head on frozen embeddings."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Settings):
    """How a head is trained. Two runs with equal configs, data and seeds are identical.

    Attributes:
        learning_rate: learning rate of Adam, constant unless the method has a schedule.
        adversary_learning_rate: learning rate of the adversary; if omitted, `learning_rate`.
        weight_decay: strength of the decoupled weight decay (AdamW); 0 turns it off.
        batch_size: training pairs in a step.
        drop_last: leave out the last batch of an epoch if it is not full.
        max_epochs: maximum number of passes over the training pairs.
        patience: epochs without improvement after which a seed stops (early stopping).
        weights: weights of the loss terms in the total, by name; terms that are not named have weight 1. The training
            curve shows the unweighted terms.
        monitor: criterion for the epoch to keep: the dev `loss`, with or without its adversarial term, or
            `dev_retrieval`, the mean accuracy@1 of the meaning over both directions and, for a mixture, over its pairs.
        validation: validation pairs: those of the corpus's `dev` split, or a fraction of the training pairs that is
            held out (`train_fraction`).
        validation_fraction: share of the training pairs that `train_fraction` holds out.
        validation_draws: random texts for the validation pairs: `fixed`, or redrawn in `each_epoch`, which makes the
            validation loss noisy.
        split_seed: random seed of the held-out pairs and of the order and draws of validation.
        precision: number format of matrix products; parameters, losses and moments are always float32.
        warm_start: start from the head on disk if only the training texts have changed. Training ends sooner, but the
            result depends on what was trained before, and a rebuild does not reproduce it.
        checkpoint_seconds: seconds between two checkpoints.
    """

    learning_rate: Rate
    adversary_learning_rate: Rate | None = None
    weight_decay: Decay = 0.0
    batch_size: Positive = 512
    drop_last: bool = field(default=False, metadata=OF_PUBLISHED_CODE)
    max_epochs: Positive = 1000
    patience: Positive = 15
    weights: dict[str, Factor] = field(default_factory=dict)
    monitor: Literal["loss", "loss_without_adversarial", "dev_retrieval"] = "loss"
    validation: Literal["dev", "train_fraction"] = "dev"
    validation_fraction: Annotated[float, Gt(0), Lt(1)] = 0.1
    validation_draws: Literal["fixed", "each_epoch"] = field(default="fixed", metadata=OF_PUBLISHED_CODE)
    split_seed: Seed = 42
    precision: Precision = "float32"
    warm_start: bool = False
    checkpoint_seconds: Seconds = 10.0

    def in_epoch(self, epoch: int) -> "TrainConfig":
        """Return the settings of one epoch, counted from 0; they are constant unless the method has a schedule."""
        return self

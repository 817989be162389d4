"""Stage 2 of TWOSL: perceptrons on the features of spans: is it a slot, and which."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.heads.twosl.features import ItemFeatures
from disent_core.methods.twosl import TwoSlConfig
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import EpochReport, ExamplesTask, TrainingRun, train

_BLOCK = 4096


def perceptron(sizes: Sequence[int], seed: int, what: str, device: str) -> nn.Sequential:
    """Return linear layers of these sizes with ReLU between them; equal `seed` and `what` give equal weights."""
    layers: list[nn.Module] = []
    with seeded(derived_seed(seed, "initial", what)):
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(device)


def train_classifier(
    network: nn.Sequential,
    features: Callable[[], ItemFeatures],
    items: Int[Tensor, " chosen"],
    classes: Int[Tensor, " chosen"],
    config: TwoSlConfig,
    run: TrainingRun,
) -> Iterator[EpochReport]:
    """Train with cross-entropy on these items; see `disent_core.optimisation.steps.train`.

    Args:
        network: network from `perceptron`.
        features: returns the features of all items; not called if a finished checkpoint has the weights.
        items: rows of the items to train on.
        classes: class of each of them.
        config: settings.
        run: seed, epochs and checkpoint.
    """

    def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        logits = network(features().take(items[rows]))
        return F.cross_entropy(logits, classes[rows].to(logits.device), reduction="none")

    size = config.batch_size
    return train(ExamplesTask(network, loss, len(items), config.classifier_optimiser, batch_size=size, run=run), run)


@torch.no_grad()
def probabilities(
    network: nn.Sequential, features: ItemFeatures, items: Int[Tensor, " chosen"]
) -> Float[Tensor, "chosen classes"]:
    """Return the probability of each class for these items, on the CPU."""
    network.eval()
    blocks = [network(features.take(block)).softmax(dim=-1).cpu() for block in items.split(_BLOCK)]
    return torch.cat(blocks)


def recall_threshold(slot_probability: Float[Tensor, " slots"], recall: float) -> float:
    """Return the largest threshold that this share (0 to 1) of the slots reaches, given their probabilities."""
    ordered = slot_probability.sort(descending=True).values
    passing = max(-int(-recall * len(ordered) // 1), 1)
    return float(ordered[passing - 1])

"""Methods that fine-tune on intents, EMU and its baselines: batches of labelled utterances, and dev evaluation.

A method of this family overrides `terms`, and `draws` if its loss compares utterances.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.fine_tunable import Source, VectorMap, embed_all
from disent_core.heads.families.fine_tuned import FineTuningTask, open_source
from disent_core.heads.families.intent_data import IntentData, intent_data
from disent_core.methods.intent import IntentConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import Batch, TrainingData

Lookup = Callable[[Tensor], Tensor]
"""From rows of texts to their vectors: computed with gradient in training, read from a matrix on dev."""


class IntentTask(FineTuningTask):
    """Training of one seed of a method that is trained on intents.

    Args:
        data: the utterances.
        source: encoder or map to fine-tune.
        inputs: inputs of the source, by the rows of `data`.
        config: settings.
        seed: random seed.
        device: device of the vectors.
    """

    def __init__(
        self, data: IntentData, source: Source, inputs: Any, config: IntentConfig, seed: int, device: str
    ) -> None:
        super().__init__()
        self.data, self.source, self.inputs, self.seed, self.device = data, source, inputs, seed, device
        self.config: Any = config
        self.build()
        self.to(device)
        self.optimisers = {"main": Optimiser(self.main_parameters(), config.optimiser)}

    def build(self) -> None:
        """Make further modules that training needs."""

    def main_parameters(self) -> list[nn.Parameter]:
        """Parameters that a step on the loss trains."""
        return list(self.parameters())

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Return the weighted loss terms of a batch: their sum is minimised."""
        raise NotImplementedError

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Draw further texts for each of these at random: tensors with one row for each."""
        return {}

    # --- training ---

    def batches(self, epoch: int) -> Sequence[Batch]:
        """All labelled utterances, shuffled."""
        random = generator(self.seed, "epoch", epoch)
        rows = self.data.labelled[torch.randperm(len(self.data.labelled), generator=random)]
        epoch_batch = {"rows": rows, **self.draws(rows, random)}
        columns = [value.split(self.config.batch_size) for value in epoch_batch.values()]
        return [dict(zip(epoch_batch, values, strict=True)) for values in zip(*columns, strict=True)]

    def loss(self, batch: Batch) -> tuple[Terms, int]:
        """Return the terms and their sum."""
        terms = self.terms(batch, self.vectors)
        return {**terms, "total": torch.stack(list(terms.values())).sum()}, len(batch["rows"])

    def vectors(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return the vectors of texts from the current source."""
        return self.source(self.inputs, rows)

    def labels(self, rows: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """Return the intents of texts."""
        return self.data.labels[rows].to(self.device)

    # --- dev ---

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return the loss on labelled dev utterances, batched as in training, and the nearest neighbour's accuracy."""
        self.eval()
        first = self.data.first_dev
        matrix = embed_all(self.source, self.inputs, torch.arange(first, len(self.data.texts)))

        def lookup(rows: Tensor) -> Tensor:
            return matrix[(rows - first).to(matrix.device)]

        rows = self.data.dev_labelled
        dev_batch = {"rows": rows, **self.dev_draws(rows)}
        columns = [value.split(self.config.batch_size) for value in dev_batch.values()]
        batches = [dict(zip(dev_batch, values, strict=True)) for values in zip(*columns, strict=True)]
        sums: dict[str, float] = {}
        for batch in batches:
            for name, value in self.terms(batch, lookup).items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(batch["rows"]) / len(rows)
        by_language = [lookup(parallel_rows) for parallel_rows in self.data.dev_parallel]
        labels = [self.labels(parallel_rows) for parallel_rows in self.data.dev_parallel]
        return {**sums, "total": sum(sums.values()), "accuracy_at_1": intent_accuracy(by_language, labels)}

    def dev_draws(self, rows: Int[Tensor, " rows"]) -> Batch:
        """Return draws on dev that are the same in every epoch and seed."""
        return self.draws(rows, generator(0, "dev"))


def intent_accuracy(
    vectors: Sequence[Float[Tensor, "parallel dim"]], labels: Sequence[Int[Tensor, " parallel"]]
) -> float:
    """Share of utterances whose nearest utterance in another language, except its translation, has their intent.

    Nearest by cosine; mean over all ordered pairs of languages; with a single language, neighbours are in it.
    """
    unit = [F.normalize(rows, dim=-1) for rows in vectors]
    accuracies = []
    for query, pool in list(permutations(range(len(unit)), 2)) or [(0, 0)]:
        similarity = unit[query] @ unit[pool].T
        similarity.fill_diagonal_(float("-inf"))
        accuracies.append((labels[pool][similarity.argmax(dim=1)] == labels[query]).double().mean())
    return float(torch.stack(accuracies).mean())


def intent_tasks(
    kind: type[IntentTask], data: TrainingData, config: IntentConfig, device: str
) -> Callable[[int], IntentTask]:
    """Return a function that makes the task of each seed; texts are tokenised, or vectors gathered, once."""
    utterances = intent_data(data, config.training_languages, config.other_languages)
    prepared: list[Any] = []

    def build(seed: int) -> IntentTask:
        source = open_source(config, data.dim, data.encoder, device)
        if not prepared:
            is_map = isinstance(source, VectorMap)
            prepared.append(
                data.vectors.take(utterances.bank).to(device) if is_map else source.prepare(utterances.texts)
            )
        return kind(utterances, source, prepared[0], config, seed, device)

    return build

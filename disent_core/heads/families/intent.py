"""What EMU and its baselines share: labelled utterances in shuffled batches, and dev by the nearest neighbour's intent.

A method of this family overrides `terms`, and `draws` where its loss compares utterances.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.encoders.fine_tunable import Source, VectorMap, embed_all
from disent_core.heads.families.fine_tuned import FineTunedMethod, FineTuningTask, TuningConfig, open_source
from disent_core.heads.families.intent_data import IntentData, intent_data
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import Batch, TrainingData
from disent_core.training.needs import Need

Lookup = Callable[[Tensor], Tensor]
"""From rows of texts to their vectors: with gradient in training, looked up on dev."""


@dataclass(frozen=True, kw_only=True)
class IntentConfig(TuningConfig):
    """What is fine-tuned, and on which labels.

    The paper's learning rate, 1e-3, is for LASER's BiLSTM: with Adam it destroys a transformer. Preset `paper`
    keeps it; preset `transformer` has 2e-5. Preset `head` trains a map over the frozen vectors.

    Attributes:
        tune: the whole `encoder`, or a `head` over its frozen vectors, which starts as the identity.
        map: the head: one `linear` layer, or an `mlp` of two beside a residual connection.
        training_languages: languages whose intents are read; none is English if it is one of the languages, else the
            first.
    """

    learning_rate: float = 1e-3
    batch_size: int = 16
    epochs: int = 3
    tune: Literal["encoder", "head"] = "encoder"
    map: Literal["linear", "mlp"] = "linear"
    training_languages: tuple[str, ...] = ()

    @property
    def vector_map(self) -> Literal["linear", "mlp"] | None:
        """The map, where `tune` is `head`."""
        return self.map if self.tune == "head" else None

    @property
    def other_languages(self) -> tuple[str, ...]:
        """Languages whose unlabelled utterances are read too; none are all that are no training languages."""
        return ()


class IntentTask(FineTuningTask):
    """One seed of a method that is trained on intents.

    Args:
        data: the utterances.
        source: what is tuned.
        inputs: of the source, by the rows of `data`.
        config: settings.
        seed: of everything random.
        device: where vectors are.
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
        """Make the modules that help in training."""

    def main_parameters(self) -> list[nn.Parameter]:
        """What a step on the loss trains."""
        return list(self.parameters())

    def terms(self, batch: Batch, lookup: Lookup) -> dict[str, Tensor]:
        """Loss terms of a batch, weighted: their sum is minimised."""
        raise NotImplementedError

    def draws(self, rows: Int[Tensor, " rows"], random: torch.Generator) -> Batch:
        """Other texts for each of these, drawn at random: tensors with a row for each."""
        return {}

    # --- training ---

    def batches(self, epoch: int) -> Sequence[Batch]:
        """All labelled utterances, shuffled."""
        random = generator(self.seed, "epoch", epoch)
        rows = self.data.labelled[torch.randperm(len(self.data.labelled), generator=random)]
        whole = {"rows": rows, **self.draws(rows, random)}
        parts = [value.split(self.config.batch_size) for value in whole.values()]
        return [dict(zip(whole, step, strict=True)) for step in zip(*parts, strict=True)]

    def loss(self, batch: Batch) -> tuple[Terms, int]:
        """The terms and their sum."""
        terms = self.terms(batch, self.vectors)
        return {**terms, "total": torch.stack(list(terms.values())).sum()}, len(batch["rows"])

    def vectors(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Vectors of texts, as the source is now."""
        return self.source(self.inputs, rows)

    def labels(self, rows: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """Intents of texts."""
        return self.data.labels[rows].to(self.device)

    # --- dev ---

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """The loss on labelled dev utterances, in batches as in training, and the nearest neighbour's accuracy."""
        self.eval()
        first = self.data.first_dev
        matrix = embed_all(self.source, self.inputs, torch.arange(first, len(self.data.texts)))

        def lookup(rows: Tensor) -> Tensor:
            return matrix[(rows - first).to(matrix.device)]

        rows = self.data.dev_labelled
        whole = {"rows": rows, **self.dev_draws(rows)}
        parts = [value.split(self.config.batch_size) for value in whole.values()]
        batches = [dict(zip(whole, step, strict=True)) for step in zip(*parts, strict=True)]
        sums: dict[str, float] = {}
        for batch in batches:
            for name, value in self.terms(batch, lookup).items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(batch["rows"]) / len(rows)
        by_language = [lookup(own) for own in self.data.dev_parallel]
        labels = [self.labels(own) for own in self.data.dev_parallel]
        return {**sums, "total": sum(sums.values()), "accuracy_at_1": intent_accuracy(by_language, labels)}

    def dev_draws(self, rows: Int[Tensor, " rows"]) -> Batch:
        """The same draws on dev in every epoch and seed."""
        return self.draws(rows, generator(0, "dev"))


def intent_accuracy(
    vectors: Sequence[Float[Tensor, "parallel dim"]], labels: Sequence[Int[Tensor, " parallel"]]
) -> float:
    """Share of utterances whose nearest one in another language, its translation left out, has their intent.

    By cosine; mean over all directions between two of the languages; within the language where there is but one.
    """
    unit = [F.normalize(one, dim=-1) for one in vectors]
    found = []
    for query, pool in list(permutations(range(len(unit)), 2)) or [(0, 0)]:
        similarity = unit[query] @ unit[pool].T
        similarity.fill_diagonal_(float("-inf"))
        found.append((labels[pool][similarity.argmax(dim=1)] == labels[query]).double().mean())
    return float(torch.stack(found).mean())


def intent_tasks(
    kind: type[IntentTask], data: TrainingData, config: IntentConfig, device: str
) -> Callable[[int], IntentTask]:
    """What makes the task of each seed; texts are tokenised, or vectors gathered, once."""
    own = intent_data(data, config.training_languages, config.other_languages)
    prepared: list[Any] = []

    def build(seed: int) -> IntentTask:
        source = open_source(config, data.dim, data.encoder, device)
        if not prepared:
            is_map = isinstance(source, VectorMap)
            prepared.append(data.vectors.take(own.bank).to(device) if is_map else source.prepare(own.texts))
        return kind(own, source, prepared[0], config, seed, device)

    return build


def intent_method(name: str, kind: type[IntentTask], config: type[IntentConfig], **settings: Any) -> FineTunedMethod:
    """A method of this family, with its three presets; its embedding is named `sentence`."""

    def tasks(data: TrainingData, own: IntentConfig, device: str) -> Callable[[int], IntentTask]:
        return intent_tasks(kind, data, own, device)

    return FineTunedMethod(
        name=name,
        presets={
            "paper": config(**settings),
            "transformer": config(**settings, learning_rate=2e-5),
            "head": config(**settings, tune="head"),
        },
        tasks=tasks,
        embeddings=("sentence",),
        needs=frozenset({Need.UTTERANCES, Need.ENCODER}),
    )

"""Train on translations by InfoNCE: the head of `infonce`, and the encoder itself as `fine_tuned`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.encoders.fine_tunable import Source, embed_all
from disent_core.errors import TrainingError
from disent_core.losses.contrastive import symmetric_softmax
from disent_core.matmul import Linear
from disent_core.methods.families.seed_by_seed import FineTuningTask, tuning_tasks
from disent_core.methods.infonce import InfoNceConfig, TunedConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms
from disent_core.training.data import Batch, TrainingData, no_pairs
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head, accuracy_by_pair


class InfoNceHead(Head):
    """`layers`: dim -> units with bias, GELU between two."""

    def __init__(self, dim: int, n_languages: int, config: InfoNceConfig) -> None:
        super().__init__()
        self.config = config
        widths = [dim, config.units] if config.layers == "linear" else [dim, config.units, config.units]
        self.layers = nn.ModuleList(Linear(*both) for both in pairwise(widths))

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning` [texts, units]."""
        return {"meaning": self._map(batch["vectors"])}

    def encode(self, batch: Batch) -> Batch:
        """Add `meaning` of sources and targets: [2, pairs, units]."""
        return batch | {"meaning": self._map(batch["role_vectors"][:2])}

    def _map(self, vectors: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows units"]:
        rows = F.normalize(vectors, dim=-1) * vectors.shape[-1] ** 0.5  # mean square 1: drops their length
        for number, layer in enumerate(self.layers):
            rows = layer(rows if number == 0 else F.gelu(rows))
        return rows

    def terms(self, encoded: Batch) -> Batch:
        """Return the contrast of translations; pairs that share a text are not negatives of each other."""
        (source, target), (source_text, target_text) = encoded["meaning"], encoded["role_texts"][:2]
        equal = (source_text[:, None] == source_text) | (target_text[:, None] == target_text)
        return {"contrast": symmetric_softmax(source, target, equal, temperature=self.config.temperature).mean()}


@dataclass(frozen=True)
class PairTexts:
    """Distinct texts of the training and dev pairs; `pairs[split]` has the indices of both sides' texts.

    `rows` are the rows of the texts in the frozen embeddings; `dev_language_pair` has the index of each dev pair's
    language pair.
    """

    texts: Sequence[str]
    rows: Int[Tensor, " texts"]
    pairs: Mapping[str, Int[Tensor, "pairs 2"]]
    dev_language_pair: Int[Tensor, " dev_pairs"]


def pair_texts(data: TrainingData) -> PairTexts:
    """Collect the texts of all pairs from utterances and sentence pairs, by their rows in the vectors."""
    if not len(data.splits["train"]):
        raise no_pairs(data.languages)
    if not len(data.splits["dev"]):
        raise TrainingError("there are no dev pairs. Give the corpus a dev split")
    text_of_row = dict(data.texts)
    for by_language in data.utterances.values():
        for utterances in by_language.values():
            text_of_row |= dict(zip(utterances.rows.tolist(), utterances.texts, strict=True))
    sides = {split: torch.stack([data.splits[split].text[side] for side in SIDES], dim=1) for split in data.splits}
    bank, rows = torch.cat(list(sides.values())).unique(return_inverse=True)
    pairs = dict(zip(sides, rows.split([len(rows_of_split) for rows_of_split in sides.values()]), strict=True))
    return PairTexts([text_of_row[row] for row in bank.tolist()], bank, pairs, data.splits["dev"].language_pair)


class TranslationTask(FineTuningTask):
    """Training of one seed on the contrast of translations, in nats."""

    def __init__(self, data: PairTexts, source: Source, inputs: Any, config: TunedConfig, seed: int) -> None:
        super().__init__()
        self.data, self.source, self.inputs, self.config, self.seed = data, source, inputs, config, seed
        self.optimisers = {"main": Optimiser(source.parameters(), config.optimiser)}

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Return all training pairs, shuffled; a single last pair is left out, because it has no negatives."""
        pairs = self.data.pairs["train"]
        rows = torch.randperm(len(pairs), generator=generator(self.seed, "epoch", epoch))
        return [
            {"rows": step_rows, "texts": pairs[step_rows]}
            for step_rows in rows.split(self.config.batch_size)
            if len(step_rows) > 1
        ]

    def loss(self, batch: Batch) -> tuple[Terms, int]:
        texts = batch["texts"]
        loss = self._loss(texts, self.source(self.inputs, texts.T.flatten())).mean()
        return {"contrast": loss, "total": loss}, len(texts)

    def _loss(self, texts: Int[Tensor, "pairs 2"], vectors: Float[Tensor, "texts dim"]) -> Float[Tensor, " pairs"]:
        left, right = vectors.chunk(2)
        equal = shares_a_text(texts).to(vectors.device)
        return symmetric_softmax(left, right, equal, temperature=self.config.temperature)

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return the loss on dev pairs, in order, and translation retrieval's accuracy@1, averaged over directions."""
        pairs = self.data.pairs["dev"]
        vectors = embed_all(self.source, self.inputs, pairs.T.flatten()).view(2, len(pairs), -1)
        losses = [
            self._loss(texts, torch.cat(list(step_vectors.unbind()))).sum()
            for texts, step_vectors in zip(
                pairs.split(self.config.batch_size), vectors.split(self.config.batch_size, dim=1), strict=True
            )
        ]
        loss = float(torch.stack(losses).sum()) / len(pairs)
        source, target = (F.normalize(side, dim=-1) for side in vectors)
        accuracy = accuracy_by_pair(source, target, self.data.dev_language_pair)
        return {"contrast": loss, "total": loss, "accuracy_at_1": accuracy}


def shares_a_text(texts: Int[Tensor, "pairs 2"]) -> Bool[Tensor, "pairs pairs"]:
    """Mark which pairs have the source or the target in common."""
    source, target = texts.unbind(1)
    return (source.unsqueeze(1) == source) | (target.unsqueeze(1) == target)


def tasks(data: TrainingData, config: TunedConfig, device: str) -> Callable[[int], FineTuningTask]:
    of_pairs = pair_texts(data)

    def make(source: Source, inputs: Any, seed: int) -> TranslationTask:
        return TranslationTask(of_pairs, source, inputs, config, seed)

    return tuning_tasks(make, data, of_pairs.texts, of_pairs.rows, config, device)

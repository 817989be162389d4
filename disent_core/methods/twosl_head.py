"""Train and apply TWOSL: tune the encoder on pairs of spans, then train a filter of spans and a classifier of types.

The published protocol calls the encoder twice for each candidate span. But the text of a span recurs, within a
sentence and between them, so distinct texts are encoded once, in batches of equal length, and a batch of
features is a gather.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.errors import TrainingError
from disent_core.losses.contrastive import span_contrast
from disent_core.methods.families.tagger import Tagged, Tagger, slot_types, stage
from disent_core.methods.twosl import ConcatNorm, TwoSlConfig
from disent_core.methods.twosl_spans import (
    Prediction,
    SpanItems,
    SpanPairs,
    contrastive_pairs,
    decode,
    sample_nones,
    span_items,
)
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import EpochReport, ExamplesTask, TrainingRun, train


@dataclass(frozen=True)
class Distinct:
    """The distinct texts of a list, and for each item of the list its row among them."""

    texts: list[str]
    rows: Int[np.ndarray, " texts"]


def distinct(texts: Sequence[str]) -> Distinct:
    """Return the distinct texts in the order of their first occurrence."""
    row_of_text = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return Distinct(list(row_of_text), np.fromiter((row_of_text[text] for text in texts), np.int64, len(texts)))


@dataclass(frozen=True)
class ItemFeatures:
    """Features of items, stored as the vectors of distinct texts."""

    masked: Float[Tensor, "sentences dim"]
    spans: Float[Tensor, "spans dim"]
    masked_rows: Int[Tensor, " items"]
    span_rows: Int[Tensor, " items"]
    concat_norm: ConcatNorm

    def __len__(self) -> int:
        return len(self.masked_rows)

    def take(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen features"]:
        """Return the features of these items, which are twice as wide as the encoder."""
        items = items.to(self.masked_rows.device)
        return joined(self.masked[self.masked_rows[items]], self.spans[self.span_rows[items]], self.concat_norm)


def joined(
    masked: Float[Tensor, "items dim"], spans: Float[Tensor, "items dim"], concat_norm: ConcatNorm
) -> Float[Tensor, "items features"]:
    """Concatenate the vectors of masked sentence and span.

    The cosine of such vectors is a mean of both parts' cosines weighted by norms; `l2_each` gives both parts the same
    weight.
    """
    parts = (masked, spans) if concat_norm == "none" else (F.normalize(masked, dim=-1), F.normalize(spans, dim=-1))
    return torch.cat(parts, dim=-1)


def encode_items(encoder: TunableEncoder, items: SpanItems, *, concat_norm: ConcatNorm) -> ItemFeatures:
    """Return the features of all items."""
    masked, spans = distinct(items.masked), distinct(items.texts)
    return ItemFeatures(
        encoder.vectors(masked.texts),
        encoder.vectors(spans.texts),
        torch.from_numpy(masked.rows).to(encoder.device),
        torch.from_numpy(spans.rows).to(encoder.device),
        concat_norm,
    )


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
    """Train a `perceptron` with cross-entropy on some `items`, whose `classes` are known.

    `features` returns the features of all items; it is not called if a finished checkpoint has the weights.
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


def tune_encoder(
    encoder: TunableEncoder, items: SpanItems, pairs: SpanPairs, config: TwoSlConfig, run: TrainingRun
) -> Iterator[EpochReport]:
    """Train all weights of the encoder on the pairs; see `disent_core.optimisation.steps.train`.

    A text that occurs twice in a batch is encoded twice, as in sentence-transformers.
    """
    masked, spans = distinct(items.masked), distinct(items.texts)
    masked_tokens, span_tokens = encoder.prepare(masked.texts), encoder.prepare(spans.texts)
    masked_rows, span_rows = torch.from_numpy(masked.rows), torch.from_numpy(spans.rows)
    is_same = torch.from_numpy(pairs.is_same).to(encoder.device)
    first, second = torch.from_numpy(pairs.first), torch.from_numpy(pairs.second)

    def encode(chosen: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen features"]:
        vectors = encoder(masked_tokens, masked_rows[chosen]), encoder(span_tokens, span_rows[chosen])
        return joined(*vectors, config.concat_norm)

    def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        first_vectors, second_vectors = encode(torch.cat([first[rows], second[rows]])).chunk(2)
        return span_contrast(
            1 - F.cosine_similarity(first_vectors, second_vectors),
            is_same[rows.to(is_same.device)],
            margin=config.margin,
            form=config.loss,
            hard=config.hard,
            lone_pair=config.lone_pair,
        )

    # The sum over a batch is minimised, as in sentence-transformers.
    task = ExamplesTask(
        encoder, loss, len(pairs), config.contrastive_optimiser, batch_size=config.batch_size, run=run, is_summed=True
    )
    return train(task, run)


_SENTENCES = 4096
"""Sentences that are labelled at a time, because their features are in memory."""


class SpanTagger(Tagger):
    """The encoder, the filter (unless it is off) and the classifier of types, which includes None without a filter."""

    def __init__(
        self, classes: Sequence[str], config: TwoSlConfig, files: EncoderFiles, *, seed: int, device: str
    ) -> None:
        super().__init__(classes, config, files, seed=seed, device=device)
        self.threshold: Tensor
        self.register_buffer("threshold", torch.tensor(config.filter_threshold, dtype=torch.float64))
        width = 2 * self.encoder.dim
        self.filter = perceptron([width, *config.filter_hidden, 2], seed, "filter", device) if config.filter else None
        outputs = len(classes) + (not config.filter)
        self.classifier = perceptron([width, *config.type_hidden, outputs], seed, "types", device)

    @classmethod
    def classes_of(cls, sentences: Sequence[Tagged]) -> tuple[str, ...]:
        """Return slot types."""
        if not (types := slot_types(sentences)):
            raise TrainingError("no training sentence has a slot. Add examples, or set sample to 'cover_types'")
        return types

    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        blocks = [sentences[start : start + _SENTENCES] for start in range(0, len(sentences), _SENTENCES)]
        return [tags for block in blocks for tags in self._label(block, language)]

    def _label(self, sentences: Sequence[Sequence[str]], language: str) -> list[list[str]]:
        untagged = [Tagged(tokens, [OUTSIDE] * len(tokens), language) for tokens in sentences]
        items = span_items(untagged, max_span=self.config.max_span, mask=self.config.mask)
        predictions: list[list[Prediction]] = [[] for _ in sentences]
        if len(items):
            for row, kind, probability in self._classify(self.features(items)):
                span = Prediction(self.classes[kind], int(items.start[row]), int(items.end[row]), probability)
                predictions[items.sentence[row]].append(span)
        overlap = self.config.overlap
        return [
            decode(len(tokens), spans, overlap=overlap) for tokens, spans in zip(sentences, predictions, strict=True)
        ]

    def features(self, items: SpanItems) -> ItemFeatures:
        """Return the features of items from the current encoder."""
        return encode_items(self.encoder, items, concat_norm=self.config.concat_norm)

    def _classify(self, features: ItemFeatures) -> list[tuple[int, int, float]]:
        """Return row, type and probability of the items that are slots."""
        rows = torch.arange(len(features))
        if self.filter is not None:
            rows = rows[probabilities(self.filter, features, rows)[:, 1] >= self.threshold.cpu()]
        best, kind = probabilities(self.classifier, features, rows).max(dim=1)
        is_slot = kind < len(self.classes)
        return list(zip(rows[is_slot].tolist(), kind[is_slot].tolist(), best[is_slot].tolist(), strict=True))

    # --- training ---

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        """Run stage 1, then stage 2, on one set of sentences."""
        config = self.config
        items = span_items(sentences, max_span=config.max_span, mask=config.mask)
        if config.none_sampling != "all":
            items = sample_nones(items, config.none_sampling, run.seed)
        if config.contrastive:
            yield from self._tune(items, stage(run, "contrastive", config.contrastive_epochs))
        features = cache(lambda: self.features(items))
        none = len(self.classes)
        code = {kind: index for index, kind in enumerate(self.classes)}
        classes = torch.tensor([none if label is None else code[label] for label in items.labels])
        all_rows, slot_rows = torch.arange(len(items)), (classes < none).nonzero().squeeze(1)
        if not len(slot_rows):
            problem = f"no {run.stage} sentence has a slot of at most {config.max_span} words"
            raise TrainingError(f"{problem}. Add examples")
        if self.filter is not None:
            stage_run = stage(run, "filter", config.filter_epochs)
            yield from train_classifier(self.filter, features, all_rows, (classes < none).long(), config, stage_run)
            if config.filter_recall is not None:
                passing = probabilities(self.filter, features(), slot_rows)[:, 1]
                self.threshold.fill_(recall_threshold(passing, config.filter_recall))
        rows = all_rows if self.filter is None else slot_rows
        stage_run = stage(run, "types", config.type_epochs)
        yield from train_classifier(self.classifier, features, rows, classes[rows], config, stage_run)

    def _tune(self, items: SpanItems, run: TrainingRun) -> Iterator[EpochReport]:
        pairs = contrastive_pairs(
            items.labels,
            negatives_per_positive=self.config.negatives_per_positive,
            max_positive_pairs=self.config.max_positive_pairs,
            seed=run.seed,
        )
        return tune_encoder(self.encoder, items, pairs, self.config, run)

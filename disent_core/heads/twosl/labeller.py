"""The tagger of TWOSL: an encoder, a filter of spans and a classifier of their types."""

from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.contract import EncoderFiles
from disent_core.errors import TrainingError
from disent_core.heads.families.few_shot import Tagged, slot_types
from disent_core.heads.families.tagger import Tagger, stage
from disent_core.heads.twosl.classifiers import perceptron, probabilities, recall_threshold, train_classifier
from disent_core.heads.twosl.contrastive import tune_encoder
from disent_core.heads.twosl.decode import Prediction, decode
from disent_core.heads.twosl.features import ItemFeatures, encode_items
from disent_core.heads.twosl.span_pairs import contrastive_pairs
from disent_core.heads.twosl.spans import SpanItems, sample_nones, span_items
from disent_core.methods.twosl import TwoSlConfig
from disent_core.optimisation.steps import EpochReport, TrainingRun

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
        """Slot types."""
        if not (types := slot_types(sentences)):
            raise TrainingError("no training sentence has a slot. Add examples, or set sample to 'cover_types'")
        return types

    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        """See `Tagger.label`."""
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

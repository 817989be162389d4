"""TWOSL: spans are encoded with and without their sentence, made close by type, filtered and classified.

Razumovskaia, Vulić, Korhonen: *Transfer-Free Data-Efficient Multilingual Slot Labeling*, EMNLP 2023.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.errors import TrainingError
from disent_core.heads.twosl.classifiers import perceptron, probabilities, recall_threshold, train_classifier
from disent_core.heads.twosl.config import TwoSlConfig, training_phases
from disent_core.heads.twosl.contrastive import tune_encoder
from disent_core.heads.twosl.decode import Prediction, decode
from disent_core.heads.twosl.features import ItemFeatures, encode_items
from disent_core.heads.twosl.span_pairs import contrastive_pairs
from disent_core.heads.twosl.spans import SpanItems, Tagged, sample_nones, slot_types, span_items
from disent_core.storage.tables import fingerprint
from disent_core.storage.tagger_weights import check_encoder, read_weights, write_weights
from disent_core.training.loop import Pass, Run

_SENTENCES = 4096
"""Sentences that are labelled at a time: their features are in memory."""


class SpanLabeller(nn.Module):
    """The encoder, the filter (unless it is off) and the classifier of types; without a filter None is its last class.

    Args:
        types: slot types that it knows.
        config: settings.
        files: the encoder to tune.
        seed: of the classifiers' first weights.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self, types: Sequence[str], config: TwoSlConfig, files: EncoderFiles, *, seed: int, device: str
    ) -> None:
        super().__init__()
        self.types, self.config, self.threshold = tuple(types), config, config.filter_threshold
        self.encoder = TunableEncoder(files, device, config.precision)
        width = 2 * self.encoder.dim
        self.filter = perceptron([width, *config.filter_hidden, 2], seed, "filter", device) if config.filter else None
        classes = len(types) + (not config.filter)
        self.classifier = perceptron([width, *config.type_hidden, classes], seed, "types", device)

    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        """A BIO tag for every word of every sentence; the language says whether spaces part the words."""
        blocks = [sentences[start : start + _SENTENCES] for start in range(0, len(sentences), _SENTENCES)]
        return [tags for block in blocks for tags in self._label(block, language)]

    def _label(self, sentences: Sequence[Sequence[str]], language: str) -> list[list[str]]:
        untagged = [Tagged(tokens, [OUTSIDE] * len(tokens), language) for tokens in sentences]
        items = span_items(untagged, max_span=self.config.max_span, mask=self.config.mask)
        found: list[list[Prediction]] = [[] for _ in sentences]
        if len(items):
            for row, kind, probability in self._classify(self.features(items)):
                span = Prediction(self.types[kind], int(items.start[row]), int(items.end[row]), probability)
                found[items.sentence[row]].append(span)
        overlap = self.config.overlap
        return [decode(len(tokens), spans, overlap=overlap) for tokens, spans in zip(sentences, found, strict=True)]

    def features(self, items: SpanItems) -> ItemFeatures:
        """Features of items, as the encoder is now."""
        return encode_items(self.encoder, items, concat_norm=self.config.concat_norm)

    def _classify(self, features: ItemFeatures) -> list[tuple[int, int, float]]:
        """Row, type and probability of the items that are slots."""
        rows = torch.arange(len(features))
        if self.filter is not None:
            rows = rows[probabilities(self.filter, features, rows)[:, 1] >= self.threshold]
        best, kind = probabilities(self.classifier, features, rows).max(dim=1)
        is_slot = kind < len(self.types)
        return list(zip(rows[is_slot].tolist(), kind[is_slot].tolist(), best[is_slot].tolist(), strict=True))

    def save(self, path: Path, description: dict[str, Any] | None = None) -> str:
        """Write weights and settings; returns the fingerprint of the weights."""
        own = {"types": self.types, "threshold": self.threshold, "settings": asdict(self.config)}
        encoder = {"encoder_fingerprint": self.encoder.files.fingerprint}
        return write_weights(path, self.state_dict(), {**(description or {}), "method": "twosl", **encoder, **own})

    @classmethod
    def load(cls, path: Path, files: EncoderFiles, device: str, *, seed: int | None = None) -> "SpanLabeller":
        """What `save` wrote, or one seed of a merged file. Architecture and tokeniser come from `files`.

        Raises:
            TrainingError: if the file has no such seed, or its encoder is another one.
        """
        tensors, own = read_weights(path, seed, device)
        check_encoder(path, own, files)
        settings = own["settings"]
        hidden = {name: tuple(settings[name]) for name in ("filter_hidden", "type_hidden")}
        labeller = cls(own["types"], TwoSlConfig(**{**settings, **hidden}), files, seed=0, device=device)
        labeller.load_state_dict(tensors)
        labeller.threshold = own["threshold"]
        return labeller.eval()


# --- training ---------------------------------------------------------------------------------------------


def fit(
    train: Sequence[Tagged],
    config: TwoSlConfig,
    files: EncoderFiles,
    *,
    seed: int,
    checkpoints: Path,
    device: str,
    source: Sequence[Tagged] = (),
) -> SpanLabeller:
    """Train from beginning to end; see `start`."""
    labeller, passes = start(train, config, files, seed=seed, checkpoints=checkpoints, device=device, source=source)
    for _ in passes:
        pass
    return labeller


def start(
    train: Sequence[Tagged],
    config: TwoSlConfig,
    files: EncoderFiles,
    *,
    seed: int,
    checkpoints: Path,
    device: str,
    source: Sequence[Tagged] = (),
    run: str = "",
) -> tuple[SpanLabeller, Iterator[Pass]]:
    """A labeller, and the passes that train it in place: it is ready when they are drained.

    With `transfer` sequential both stages run over `source` first, then go on over the sample of `train`.

    Args:
        train: sentences of the target language, of which `config.examples` are drawn.
        config: settings.
        files: the encoder to tune.
        seed: of the sample, the pairs, first weights, batches and dropout.
        checkpoints: folder; a run that was cut off goes on from what lies there.
        device: `cpu` or `cuda`.
        source: all sentences of the source language, for `transfer` sequential.
        run: fingerprint of what else the weights depend on.

    Raises:
        TrainingError: if there is too little to train on, or the loss is not finite.
    """
    phases = training_phases(train, config, seed, source)
    types = slot_types([sentence for sentences in phases.values() for sentence in sentences])
    if not types:
        raise TrainingError("no training sentence has a slot. Add examples, or set sample to 'cover_types'")
    labeller = SpanLabeller(types, config, files, seed=seed, device=device)
    identity = fingerprint(run, "twosl", asdict(replace(config, checkpoint_seconds=0.0)), files.fingerprint)
    seconds = config.checkpoint_seconds
    whole = Run(stage="", identity=identity, seed=seed, checkpoint=checkpoints, checkpoint_seconds=seconds)
    return labeller, _train(labeller, phases, whole)


def _train(labeller: SpanLabeller, phases: dict[str, Sequence[Tagged]], run: Run) -> Iterator[Pass]:
    for name, sentences in phases.items():
        run = replace(run, identity=fingerprint(run.identity, name, sentences))
        yield from _train_phase(labeller, name, sentences, run)


def _train_phase(labeller: SpanLabeller, phase: str, sentences: Sequence[Tagged], run: Run) -> Iterator[Pass]:
    """Stage 1, then stage 2, on one set of sentences."""
    config = labeller.config

    def stage(name: str) -> Run:
        return replace(run, stage=f"{phase}_{name}", checkpoint=run.checkpoint / f"{phase}_{name}.safetensors")

    items = span_items(sentences, max_span=config.max_span, mask=config.mask)
    if config.none_sampling != "all":
        items = sample_nones(items, config.none_sampling, run.seed)
    if config.contrastive:
        yield from _tune(labeller, items, stage("contrastive"))
    features = cache(lambda: labeller.features(items))
    none = len(labeller.types)
    code = {kind: index for index, kind in enumerate(labeller.types)}
    classes = torch.tensor([none if label is None else code[label] for label in items.labels])
    every, slots = torch.arange(len(items)), (classes < none).nonzero().squeeze(1)
    if not len(slots):
        raise TrainingError(f"no {phase} sentence has a slot of at most {config.max_span} words. Add examples")
    if labeller.filter is not None:
        recipe = config.classifier_recipe(config.filter_epochs)
        is_slot = (classes < none).long()
        yield from train_classifier(labeller.filter, features, every, is_slot, recipe, stage("filter"))
        if config.filter_recall is not None:
            passing = probabilities(labeller.filter, features(), slots)[:, 1]
            labeller.threshold = recall_threshold(passing, config.filter_recall)
    rows = every if labeller.filter is None else slots
    recipe = config.classifier_recipe(config.type_epochs)
    yield from train_classifier(labeller.classifier, features, rows, classes[rows], recipe, stage("types"))


def _tune(labeller: SpanLabeller, items: SpanItems, run: Run) -> Iterator[Pass]:
    config = labeller.config
    pairs = contrastive_pairs(
        items.labels,
        negatives_per_positive=config.negatives_per_positive,
        max_positive_pairs=config.max_positive_pairs,
        seed=run.seed,
    )
    return tune_encoder(
        labeller.encoder,
        items,
        pairs,
        config.contrastive_recipe,
        run,
        concat_norm=config.concat_norm,
        margin=config.margin,
        form=config.loss,
        hard=config.hard,
        lone_pair=config.lone_pair,
    )

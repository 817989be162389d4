"""Train and apply TWOSL: tune the encoder on pairs of spans, then train a filter of spans and a classifier of types.

The published protocol calls the encoder twice for each candidate span. But the texts of spans recur, within and across
sentences, so each distinct text is encoded once, in batches of equal length, and a batch of features is a gather.
`token_classification` is a linear layer on the state of each word's first sub-word.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.corpora.annotation import OUTSIDE
from disent_core.encoders.contract import EncoderFiles
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.errors import TrainingError
from disent_core.losses.contrastive import span_contrast
from disent_core.methods.families.tagger import Tagged, Tagger, slot_types, slots_of, stage
from disent_core.methods.twosl import ConcatNorm, Mask, Overlap, TokenClassificationConfig, TwoSlConfig
from disent_core.optimisation.seeds import derived_seed, seeded
from disent_core.optimisation.steps import EpochReport, ExamplesTask, TrainingRun, train
from disent_core.text import MASK, SUBWORD_MASK_CLOSE, SUBWORD_MASK_OPEN, separator_of

# --- spans ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpanItems:
    """Spans, sentence by sentence, short ones first. Words are counted from 0, ends are exclusive.

    `masked` has the sentence with the span masked, `texts` the text of the span, `labels` its slot type or None.
    """

    sentence: Int[np.ndarray, " items"]
    start: Int[np.ndarray, " items"]
    end: Int[np.ndarray, " items"]
    masked: list[str]
    texts: list[str]
    labels: list[str | None]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Int[np.ndarray, " chosen"]) -> "SpanItems":
        texts = ([column[row] for row in rows.tolist()] for column in (self.masked, self.texts, self.labels))
        return SpanItems(self.sentence[rows], self.start[rows], self.end[rows], *texts)


def span_items(sentences: Sequence[Tagged], *, max_span: int, mask: Mask) -> SpanItems:
    """Return every contiguous span of 1 to `max_span` words of every sentence.

    A span is labelled if it is exactly a slot; parts of slots, and spans that contain one, are None. Slots of more than
    `max_span` words are never classified, so recall is at most the share of shorter slots.
    """
    positions: list[tuple[int, int, int]] = []
    masked, texts, labels = [], [], []
    for index, sentence in enumerate(sentences):
        types = {(slot.start, slot.end): slot.type for slot in slots_of(sentence)}
        separator = separator_of(sentence.language)
        tokens = list(sentence.tokens)
        for size in range(1, min(max_span, len(tokens)) + 1):
            for start in range(len(tokens) - size + 1):
                end = start + size
                positions.append((index, start, end))
                texts.append(text := separator.join(tokens[start:end]))
                words = [MASK] * (size if mask == "word" else 1)
                hidden = [f"{SUBWORD_MASK_OPEN}{text}{SUBWORD_MASK_CLOSE}"] if mask == "subword" else words
                masked.append(separator.join([*tokens[:start], *hidden, *tokens[end:]]))
                labels.append(types.get((start, end)))
    sentence, start, end = np.array(positions, dtype=np.int64).reshape(-1, 3).T
    return SpanItems(sentence, start, end, masked, texts, labels)


def sample_nones(items: SpanItems, per_sentence: int, seed: int) -> SpanItems:
    """Keep all slots and at most `per_sentence` random non-slot spans of each sentence, in the order of `items`."""
    rank = np.random.default_rng((seed, 3)).random(len(items))
    is_none = np.array([label is None for label in items.labels], dtype=bool)
    nones = np.flatnonzero(is_none)
    order = nones[np.lexsort((rank[nones], items.sentence[nones]))]
    # Non-slots sorted by sentence, in random order within each: keep the first `per_sentence` of each sentence.
    first = np.searchsorted(items.sentence[order], items.sentence[order], side="left")
    kept = order[np.arange(len(order)) - first < per_sentence]
    return items.select(np.sort(np.concatenate([np.flatnonzero(~is_none), kept])))


@dataclass(frozen=True)
class SpanPairs:
    """Rows of the first and second item of each pair; all positive pairs come first."""

    first: Int[np.ndarray, " pairs"]
    second: Int[np.ndarray, " pairs"]
    is_same: Bool[np.ndarray, " pairs"]

    def __len__(self) -> int:
        return len(self.first)


def contrastive_pairs(
    labels: Sequence[str | None], *, negatives_per_positive: int, max_positive_pairs: int, seed: int
) -> SpanPairs:
    """Return every pair of items of the same type, and for each pair random items of another type, or of none.

    `labels` are the slot types of the items, None for no slot. Of 2K `negatives_per_positive` (the paper's notation), K
    are drawn for each item of the positive pair; 1 draws one of the two items, then one negative for it. If there are
    more than `max_positive_pairs`, a random sample of that size is taken.
    """
    random = np.random.default_rng((seed, 5))
    # Items are sorted into blocks by label, the block of items without a type last.
    types = sorted({label for label in labels if label is not None})
    codes: dict[str | None, int] = {label: code for code, label in enumerate(types)}
    code = np.array([codes.get(label, len(types)) for label in labels], np.int64)
    order = np.argsort(code, kind="stable")
    size = np.bincount(code, minlength=len(types) + 1)
    begin = np.cumsum(size) - size
    # Number all pairs, type by type; `ends` has the number at which each type's pairs end.
    of_type = size[: len(types)] * (size[: len(types)] - 1) // 2
    ends = np.cumsum(of_type)
    total = int(ends[-1]) if len(ends) else 0
    if not total:
        raise TrainingError("no two training spans share a slot type. Set contrastive to false, or add examples")
    if total <= max_positive_pairs:
        chosen = np.arange(total)
    else:
        chosen = np.sort(random.choice(total, max_positive_pairs, replace=False, shuffle=False))
    group = np.searchsorted(ends, chosen, side="right")
    first, second = (order[begin[group] + place] for place in _unrank(chosen - (ends - of_type)[group]))
    if negatives_per_positive == 1:
        anchors = np.where(random.random(len(first)) < 0.5, first, second)
    else:
        half = negatives_per_positive // 2
        anchors = np.concatenate([np.repeat(first, half), np.repeat(second, half)])
    # An item with another label for each anchor is drawn uniformly by skipping the anchor's block.
    block = code[anchors]
    candidates = len(code) - size[block]
    if not candidates.all():
        raise TrainingError("all training spans have the same label, so there is no negative. Add examples")
    drawn = random.integers(0, candidates)
    negatives = order[drawn + np.where(drawn >= begin[block], size[block], 0)]
    is_same = np.arange(len(first) + len(anchors)) < len(first)
    return SpanPairs(np.concatenate([first, anchors]), np.concatenate([second, negatives]), is_same)


def _unrank(rank: Int[np.ndarray, " pairs"]) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Return the pair low < high of each rank, in the order (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    high = ((1 + np.sqrt(1 + 8 * rank.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > rank  # the square root may be off by one in the last bit
    high += high * (high + 1) // 2 <= rank
    return rank - high * (high - 1) // 2, high


class Prediction(NamedTuple):
    """A span of words, end exclusive, that a classifier predicts to be a slot, with its probability."""

    type: str
    start: int
    end: int
    probability: float


def decode(length: int, predictions: Sequence[Prediction], *, overlap: Overlap) -> list[str]:
    """Return the tags of a sentence of `length` words from predictions that may overlap.

    `greedy` keeps the most probable span first (ties: leftmost, then shortest) and drops those that overlap it;
    `overwrite` writes all spans from left to right, shorter ones first where several begin together, so that later
    spans overwrite earlier ones.
    """
    tags, greedy = [OUTSIDE] * length, overlap == "greedy"
    for span in sorted(predictions, key=lambda span: (-span.probability if greedy else 0, span.start, span.end)):
        if not greedy or all(tag == OUTSIDE for tag in tags[span.start : span.end]):
            tags[span.start : span.end] = [f"B-{span.type}", *[f"I-{span.type}"] * (span.end - span.start - 1)]
    return tags


# --- features ---------------------------------------------------------------------------------------------


def distinct(texts: Sequence[str]) -> tuple[list[str], Int[Tensor, " texts"]]:
    """Return the distinct texts in the order of their first occurrence, and for each text its row among them."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return encoded.dictionary.to_pylist(), torch.from_numpy(encoded.indices.to_numpy().astype(np.int64))


@dataclass(frozen=True)
class ItemFeatures:
    """Features of items, stored as the vectors of distinct texts; they are twice as wide as these."""

    masked: Float[Tensor, "sentences dim"]
    spans: Float[Tensor, "spans dim"]
    masked_rows: Int[Tensor, " items"]
    span_rows: Int[Tensor, " items"]
    concat_norm: ConcatNorm

    def __len__(self) -> int:
        return len(self.masked_rows)

    def take(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen features"]:
        items = items.to(self.masked_rows.device)
        return joined(self.masked[self.masked_rows[items]], self.spans[self.span_rows[items]], self.concat_norm)


def joined(
    masked: Float[Tensor, "items dim"], spans: Float[Tensor, "items dim"], concat_norm: ConcatNorm
) -> Float[Tensor, "items features"]:
    """Concatenate the vectors of masked sentence and span; `l2_each` gives both the same weight in a cosine."""
    parts = (masked, spans) if concat_norm == "none" else (F.normalize(masked, dim=-1), F.normalize(spans, dim=-1))
    return torch.cat(parts, dim=-1)


def encode_items(encoder: TunableEncoder, items: SpanItems, *, concat_norm: ConcatNorm) -> ItemFeatures:
    (masked, masked_rows), (spans, span_rows) = distinct(items.masked), distinct(items.texts)
    masked_rows, span_rows = masked_rows.to(encoder.device), span_rows.to(encoder.device)
    return ItemFeatures(encoder.vectors(masked), encoder.vectors(spans), masked_rows, span_rows, concat_norm)


# --- training ---------------------------------------------------------------------------------------------

_BLOCK = 4096  # items whose features are in memory at once


def perceptron(sizes: Sequence[int], seed: int, what: str, device: str) -> nn.Sequential:
    """Return linear layers of these sizes with ReLU in between; equal `seed` and `what` give equal weights."""
    layers: list[nn.Module] = []
    with seeded(derived_seed(seed, "initial", what)):
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(device)


@torch.no_grad()
def probabilities(
    network: nn.Sequential, features: ItemFeatures, items: Int[Tensor, " chosen"]
) -> Float[Tensor, "chosen classes"]:
    network.eval()
    blocks = [network(features.take(block)).softmax(dim=-1).cpu() for block in items.split(_BLOCK)]
    return torch.cat(blocks)


def recall_threshold(slot_probability: Float[Tensor, " slots"], recall: float) -> float:
    """Return the largest threshold that a share `recall` (0 to 1) of the slots reaches, given their probabilities."""
    ordered = slot_probability.sort(descending=True).values
    passing = max(-int(-recall * len(ordered) // 1), 1)
    return float(ordered[passing - 1])


def tune_encoder(
    encoder: TunableEncoder, items: SpanItems, pairs: SpanPairs, config: TwoSlConfig, run: TrainingRun
) -> Iterator[EpochReport]:
    """Train all weights of the encoder on the pairs; see `disent_core.optimisation.steps.train`.

    A text that occurs twice in a batch is encoded twice, as in sentence-transformers.
    """
    (masked, masked_rows), (spans, span_rows) = distinct(items.masked), distinct(items.texts)
    masked_tokens, span_tokens = encoder.prepare(masked), encoder.prepare(spans)
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


# --- taggers ----------------------------------------------------------------------------------------------

_SENTENCES = 4096  # sentences labelled at once; bounds the memory of their features


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
        pairs = zip(sentences, predictions, strict=True)
        return [decode(len(tokens), spans, overlap=self.config.overlap) for tokens, spans in pairs]

    def features(self, items: SpanItems) -> ItemFeatures:
        return encode_items(self.encoder, items, concat_norm=self.config.concat_norm)

    def _classify(self, features: ItemFeatures) -> list[tuple[int, int, float]]:
        rows = torch.arange(len(features))
        if self.filter is not None:
            rows = rows[probabilities(self.filter, features, rows)[:, 1] >= self.threshold.cpu()]
        best, kind = probabilities(self.classifier, features, rows).max(dim=1)
        is_slot = kind < len(self.classes)
        return list(zip(rows[is_slot].tolist(), kind[is_slot].tolist(), best[is_slot].tolist(), strict=True))

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        config = self.config
        items = span_items(sentences, max_span=config.max_span, mask=config.mask)
        if config.none_sampling != "all":
            items = sample_nones(items, config.none_sampling, run.seed)
        if config.contrastive:
            pairs = contrastive_pairs(
                items.labels,
                negatives_per_positive=config.negatives_per_positive,
                max_positive_pairs=config.max_positive_pairs,
                seed=run.seed,
            )
            tuning = stage(run, "contrastive", config.contrastive_epochs)
            yield from tune_encoder(self.encoder, items, pairs, config, tuning)
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
            yield from self._train(self.filter, features, all_rows, (classes < none).long(), stage_run)
            if config.filter_recall is not None:
                passing = probabilities(self.filter, features(), slot_rows)[:, 1]
                self.threshold.fill_(recall_threshold(passing, config.filter_recall))
        rows = all_rows if self.filter is None else slot_rows
        stage_run = stage(run, "types", config.type_epochs)
        yield from self._train(self.classifier, features, rows, classes[rows], stage_run)

    def _train(
        self, network: nn.Module, features: Callable[[], ItemFeatures], items: Tensor, classes: Tensor, run: TrainingRun
    ) -> Iterator[EpochReport]:
        """Train a `perceptron` with cross-entropy on some items, whose classes are known.

        `features()` returns the features of all items; it is not called if a finished checkpoint has the weights.
        """

        def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
            logits = network(features().take(items[rows]))
            return F.cross_entropy(logits, classes[rows].to(logits.device), reduction="none")

        size, optimiser = self.config.batch_size, self.config.classifier_optimiser
        return train(ExamplesTask(network, loss, len(items), optimiser, batch_size=size, run=run), run)


# --- token classification ---------------------------------------------------------------------------------

_BATCH = 64  # sentences


@dataclass(frozen=True)
class Words:
    """A sentence as token ids, with the words that have sub-words and the position of each one's first sub-word."""

    ids: Int[np.ndarray, " length"]
    positions: Int[np.ndarray, " words"]
    words: Int[np.ndarray, " words"]


class TokenTagger(Tagger):
    """An encoder whose weights are all trained, dropout, and a linear layer to the tags; pooling is not used."""

    def __init__(
        self,
        classes: Sequence[str],
        config: TokenClassificationConfig,
        files: EncoderFiles,
        *,
        seed: int,
        device: str,
    ) -> None:
        super().__init__(classes, config, replace(files, pooling="cls"), seed=seed, device=device)
        tokeniser = self.encoder.tokeniser
        self.tokeniser = type(tokeniser).from_str(tokeniser.to_str())
        self.tokeniser.no_padding()
        self.tokeniser.enable_truncation(files.max_length)
        self.dropout = nn.Dropout(config.dropout)
        with seeded(derived_seed(seed, "initial", "tags")):
            self.linear = nn.Linear(self.encoder.dim, len(classes))
        self.to(device)

    @classmethod
    def classes_of(cls, sentences: Sequence[Tagged]) -> tuple[str, ...]:
        return tuple(sorted({tag for sentence in sentences for tag in sentence.tags} | {OUTSIDE}))

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Words]:
        """Tokenise sentences; words beyond the encoder's longest input have no sub-word."""
        encoded = self.tokeniser.encode_batch([list(tokens) for tokens in sentences], is_pretokenized=True)
        return [_words(encoding.ids, encoding.word_ids) for encoding in encoded]

    def forward(self, sentences: Sequence[Words]) -> Float[Tensor, "words tags"]:
        """Return the logits of every word that has a sub-word, sentence by sentence."""
        width = max(len(sentence.ids) for sentence in sentences)
        ids = np.full((len(sentences), width), self.encoder.pad)
        visible = np.zeros((len(sentences), width), dtype=bool)
        for row, sentence in enumerate(sentences):
            ids[row, : len(sentence.ids)], visible[row, : len(sentence.ids)] = sentence.ids, True
        # Positions in the flattened [sentences, width] states.
        positions = np.concatenate([row * width + sentence.positions for row, sentence in enumerate(sentences)])
        batch = (torch.from_numpy(array).to(self.device) for array in (ids, visible))
        states = self.encoder.states(*batch).flatten(0, 1)[torch.from_numpy(positions).to(self.device)]
        return self.linear(self.dropout(states))

    @torch.no_grad()
    def label(self, sentences: Sequence[Sequence[str]], language: str = "") -> list[list[str]]:
        self.eval()
        read = self.read(sentences)
        labelled = [[OUTSIDE] * len(tokens) for tokens in sentences]
        order = [row for row in sorted(range(len(read)), key=lambda row: -len(read[row].ids)) if len(read[row].words)]
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            best = self([read[row] for row in rows]).argmax(dim=1).tolist()
            words = [(row, word) for row in rows for word in read[row].words.tolist()]
            for (row, word), tag in zip(words, best, strict=True):
                labelled[row][word] = self.classes[tag]
        return labelled

    def train_on(self, sentences: Sequence[Tagged], run: TrainingRun) -> Iterator[EpochReport]:
        config, run = self.config, stage(run, "tags", self.config.epochs)
        read = self.read([sentence.tokens for sentence in sentences])
        code = {tag: index for index, tag in enumerate(self.classes)}
        classes = [
            torch.tensor([code[sentence.tags[int(word)]] for word in words.words], dtype=torch.int64)
            for sentence, words in zip(sentences, read, strict=True)
        ]

        def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " words"]:
            logits = self([read[row] for row in rows.tolist()])
            targets = torch.cat([classes[row] for row in rows.tolist()]).to(logits.device)
            return F.cross_entropy(logits, targets, reduction="none")

        size = config.batch_size
        return train(ExamplesTask(self, loss, len(sentences), config.optimiser, batch_size=size, run=run), run)


def _words(ids: Sequence[int], word_ids: Sequence[int | None]) -> Words:
    first = [
        (position, word)
        for position, word in enumerate(word_ids)
        if word is not None and (position == 0 or word_ids[position - 1] != word)
    ]
    positions, words = np.array(first, dtype=np.int64).reshape(-1, 2).T
    return Words(np.asarray(ids, dtype=np.int64), positions, words)

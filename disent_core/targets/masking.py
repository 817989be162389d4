"""Texts made from annotated utterances: masked templates and residuals, slot-replaced template pairs.

A template is an utterance without its slot values, the residual is the slot values without the template
(FMDA, figure 3). Two utterances of one template with other slot values
are a template pair.
"""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, UInt64

from disent_core.corpora.annotation import OUTSIDE, Slot, tagged_slots
from disent_core.storage.tables import rows_of, rows_table
from disent_core.text import (
    HIDDEN_CLOSE,
    HIDDEN_OPEN,
    MASK,
    SUBWORD_MASK_CLOSE,
    SUBWORD_MASK_OPEN,
    normalise,
    text_key,
    token_spans,
)

Mask = Literal["word", "subword", "span", "delete", "attention"]
NoSlotResidual = Literal["skip", "all_masked"]
ValueSource = Literal["test", "train", "all"]
Span = tuple[int, int]


# --- masked templates and residuals -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How the masked versions of an utterance are written.

    Attributes:
        mask: `word` puts one mask for each masked token, `span` one for each run of masked tokens; `delete`
            drops them; `subword` and `attention` keep them between markers for the encoder, which masks each
            subword, or lets no token attend to them.
        no_slot_residual: the residual of an utterance without slot: none (`skip`), or all of it masked.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    mask: Mask = "word"
    no_slot_residual: NoSlotResidual = "skip"

    def __post_init__(self) -> None:
        _require_choice("mask", self.mask, get_args(Mask))
        _require_choice("no_slot_residual", self.no_slot_residual, get_args(NoSlotResidual))


def mask_utterances(utterances: pa.Table, config: MaskingConfig) -> pa.Table:
    """Template and residual text of each utterance, in the schema `masked_utterances`.

    Args:
        utterances: rows in the schema `utterances`.
        config: how masked tokens are written.
    """
    return rows_table((_masked(row, config) for row in rows_of(utterances)), "masked_utterances")


def _masked(row: Mapping[str, Any], config: MaskingConfig) -> dict[str, Any]:
    spans = token_spans(row["text"], row["tokens"])
    in_slot = [tag != OUTSIDE for tag in row["slot_tags"]]
    template = write_masked(row["text"], spans, in_slot, config.mask)
    residual = None
    if any(in_slot) or config.no_slot_residual == "all_masked":
        residual = write_masked(row["text"], spans, [not inside for inside in in_slot], config.mask)
    return {
        **{name: row[name] for name in ("corpus", "language", "utterance_id")},
        "template_text": template,
        "residual_text": residual,
        "template_key": text_key(template),
        "residual_key": None if residual is None else text_key(residual),
    }


def write_masked(text: str, spans: Sequence[Span], masked: Sequence[bool], mask: Mask) -> str:
    """The text with its masked tokens written as `mask` says; the spacing of all else is kept.

    Args:
        text: the text.
        spans: start and end, in characters, of each token.
        masked: whether it is masked, for each token.
        mask: as in `MaskingConfig`. Where `delete` leaves nothing, one mask stands for the text, for an
            encoder can't read an empty one.
    """
    if mask == "delete":
        return _without(text, spans, masked) or MASK
    if mask == "word":
        return _replaced(text, [(span, MASK) for span, hidden in zip(spans, masked, strict=True) if hidden])
    runs = _masked_runs(spans, masked)
    if mask == "span":
        return _replaced(text, [(run, MASK) for run in runs])
    before, after = _MARKERS_OF[mask]
    return _replaced(text, [((start, end), f"{before}{text[start:end]}{after}") for start, end in runs])


_MARKERS_OF = {"subword": (SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE), "attention": (HIDDEN_OPEN, HIDDEN_CLOSE)}


def _masked_runs(spans: Sequence[Span], masked: Sequence[bool]) -> list[Span]:
    """First start and last end of each unbroken run of masked tokens."""
    runs = []
    for hidden, group in groupby(zip(spans, masked, strict=True), key=lambda pair: pair[1]):
        if hidden:
            run = [span for span, _ in group]
            runs.append((run[0][0], run[-1][1]))
    return runs


def _replaced(text: str, replacements: Sequence[tuple[Span, str]]) -> str:
    """The text with other strings at spans that are in order and do not overlap."""
    pieces, position = [], 0
    for (start, end), new in replacements:
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])


def _without(text: str, spans: Sequence[Span], masked: Sequence[bool]) -> str:
    """The tokens that are not masked; of the gaps around a dropped run the wider one stays."""
    kept = [place for place, hidden in enumerate(masked) if not hidden]
    pieces = [text[slice(*spans[place])] for place in kept[:1]]
    for last, place in pairwise(kept):
        before = text[spans[last][1] : spans[last + 1][0]]
        after = text[spans[place - 1][1] : spans[place][0]]
        pieces += [max(before, after, key=len), text[slice(*spans[place])]]
    return "".join(pieces)


# --- template pairs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TemplatePairConfig:
    """Which template pairs are made.

    Attributes:
        splits: of the sources.
        values: the split whose slot values are drawn; `test` falls back to train where a slot type has no
            other value in test, `train` never looks elsewhere, `all` draws from every split.
        seed: of the draws.
        n_targets: targets of a source, fewer where its values do not suffice.
        dedup: whether a text may be a target once only, over all sources.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    splits: tuple[str, ...] = ("test",)
    values: ValueSource = "test"
    seed: int = 0
    n_targets: int = 5
    dedup: bool = True

    def __post_init__(self) -> None:
        _require_choice("values", self.values, get_args(ValueSource))
        if not self.splits:
            raise ValueError("splits must name a split at least, found ()")
        if self.n_targets < 1:
            raise ValueError(f"n_targets must be 1 at least, found {self.n_targets}")


def template_pairs(utterances: pa.Table, config: TemplatePairConfig) -> pa.Table:
    """Sources with every slot value replaced by another one of its type, in the schema `template_pairs`.

    Draws are by rendezvous hashing (Thaler and Ravishankar 1998, doi:10.1109/90.663936): of the values of a
    type, the one whose hash with seed, utterance, slot and target is the smallest. So an edit of the corpus
    changes the targets of the edited utterances, those that drew a value that is gone or new, and, with
    `dedup`, those whose text such a target has taken or set free; all others stay.

    Args:
        utterances: rows of one corpus and language in the schema `utterances`.
        config: which pairs.

    Raises:
        ValueError: if there are several corpora or languages.
    """
    for column in ("corpus", "language"):
        if len(found := utterances[column].unique().to_pylist()) > 1:
            raise ValueError(f"template pairs are made for one {column} at a time, found {found}")
    sources = [source for row in rows_of(utterances) if (source := _Source.of(row)).slots]
    pools = _value_pools(sources, config.values)
    taken: set[str] = set()
    rows = []
    for source in sources:
        if source.split in config.splits and (choices := _choices(source, pools)):
            rows += _targets(source, choices, config, taken)
    return rows_table(rows, "template_pairs")


@dataclass(frozen=True, kw_only=True)
class _Source:
    """An utterance; its slots are spans of characters, in order."""

    row: Mapping[str, Any]
    text: str
    split: str
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "_Source":
        runs = tagged_slots(row["slot_tags"])
        spans = token_spans(row["text"], row["tokens"]) if runs else []
        slots = tuple(Slot(run.type, spans[run.start][0], spans[run.end - 1][1]) for run in runs)
        return cls(row=row, text=row["text"], split=row["split"], slots=slots)

    def value(self, slot: Slot) -> str:
        return self.text[slot.start : slot.end]


@dataclass(frozen=True, kw_only=True)
class _Values:
    """Distinct values of one slot type, in one order: how each is compared, written and hashed."""

    places: Mapping[str, int]
    texts: tuple[str, ...]
    hashes: UInt64[np.ndarray, " values"]

    @classmethod
    def of(cls, values: set[str]) -> "_Values":
        text_of = {_form(value): value for value in sorted(values, reverse=True)}
        forms = sorted(text_of)
        return cls(
            places={form: place for place, form in enumerate(forms)},
            texts=tuple(text_of[form] for form in forms),
            hashes=np.array([_hash(form) for form in forms], dtype=np.uint64),
        )


_Pool = Mapping[str, _Values]


def _value_pools(sources: Sequence[_Source], values: ValueSource) -> list[_Pool]:
    """Values by slot type: the pool to draw from, then the one to fall back to."""
    every = {source.split for source in sources}
    pools = []
    for splits in {"test": [{"test"}, {"train"}], "train": [{"train"}], "all": [every]}[values]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for source in sources:
            if source.split in splits:
                for slot in source.slots:
                    found[slot.type].add(source.value(slot))
        pools.append({slot_type: _Values.of(texts) for slot_type, texts in found.items()})
    return pools


_Choice = tuple[_Values, int | None]
"""Values to draw from, and the place of the old one among them, if it is there."""


def _choices(source: _Source, pools: Sequence[_Pool]) -> list[_Choice] | None:
    """For each slot the values of the first pool that has another one; None where no pool has."""
    choices: list[_Choice] = []
    for slot in source.slots:
        form = _form(source.value(slot))
        candidates = [(pool[slot.type], pool[slot.type].places.get(form)) for pool in pools if slot.type in pool]
        fit = [(values, old) for values, old in candidates if len(values.texts) > (old is not None)]
        if not fit:
            return None
        choices.append(fit[0])
    return choices


def _targets(
    source: _Source, choices: Sequence[_Choice], config: TemplatePairConfig, taken: set[str]
) -> list[dict[str, Any]]:
    """Rows of one source; with `dedup` their texts are not in `taken`, and are added to it."""
    barred = taken if config.dedup else set()
    rows, own = [], {source.text}
    for orders in zip(*_orders(source, choices, config), strict=True):
        texts = ((new, _rebuilt(source, new)) for new in _drawn(choices, orders))
        pair = next(((new, text) for new, text in texts if text not in own and text not in barred), None)
        if pair is None:  # every combination is used up, for the targets to come as well
            break
        rows.append(_pair_row(source, len(rows), *pair))
        own.add(pair[1])
    taken |= own - {source.text}
    return rows


def _orders(
    source: _Source, choices: Sequence[_Choice], config: TemplatePairConfig
) -> Iterator[Int64[np.ndarray, "targets picks"]]:
    """For each slot: the places of the other values, for each target in the order of their hashes."""
    numbers = np.arange(1, config.n_targets + 1, dtype=np.uint64)
    for position, (values, old) in enumerate(choices):
        key = _hash(f"{config.seed}\x1f{source.row['utterance_id']}\x1f{position}")
        salts = _mixed(np.uint64(key) + numbers * _GOLDEN)
        order = np.argsort(_mixed(salts[:, None] ^ values.hashes), axis=1, kind="stable")
        yield order if old is None else order[order != old].reshape(config.n_targets, -1)


def _drawn(choices: Sequence[_Choice], orders: Sequence[Int64[np.ndarray, " _"]]) -> Iterator[list[str]]:
    """Combinations of new values, one for each slot: by the sum of their ranks, then by the earlier slot's."""
    first: tuple[int, ...] = tuple(0 for _ in choices)
    heap, seen = [(0, first)], {first}
    while heap:
        total, ranks = heapq.heappop(heap)
        yield [values.texts[order[rank]] for (values, _), order, rank in zip(choices, orders, ranks, strict=True)]
        for position, (order, rank) in enumerate(zip(orders, ranks, strict=True)):
            later = (*ranks[:position], rank + 1, *ranks[position + 1 :])
            if rank + 1 < len(order) and later not in seen:
                seen.add(later)
                heapq.heappush(heap, (total + 1, later))


def _rebuilt(source: _Source, new: Sequence[str]) -> str:
    spans = [(slot.start, slot.end) for slot in source.slots]
    return normalise(_replaced(source.text, list(zip(spans, new, strict=True))))


def _pair_row(source: _Source, index: int, new: Sequence[str], text: str) -> dict[str, Any]:
    return {
        "corpus": source.row["corpus"],
        "language": source.row["language"],
        "split": source.split,
        "source_utterance_id": source.row["utterance_id"],
        "target_index": index,
        "source_text": source.text,
        "target_text": text,
        "replaced_slots": [
            {"slot": slot.type, "old": source.value(slot), "new": value}
            for slot, value in zip(source.slots, new, strict=True)
        ],
    }


def _form(value: str) -> str:
    """Values of equal form are one value: case and spacing do not count."""
    return normalise(" ".join(value.split()).casefold())


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(numbers: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """Finaliser of SplitMix64 (Steele et al. 2014, doi:10.1145/2660193.2660195): each bit stirs every other."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _require_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, found {value!r}")

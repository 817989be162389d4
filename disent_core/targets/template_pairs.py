"""Make template pairs: an annotated utterance, and the same utterance with every slot value replaced.

Both have the same template, the utterance without its slot values (FMDA, figure 3). Parallel mates are made from the
same annotated utterances.
"""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64, UInt64

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.errors import commas
from disent_core.random_bits import GOLDEN, mixed
from disent_core.settings import Count, NotEmpty, Seed, Settings
from disent_core.storage.tables import rows_of, rows_table
from disent_core.text import MOST_CHARACTERS, normalise, spliced, token_spans

_READ = ["corpus", "language", "utterance_id", "split", "text", "tokens", "slot_tags"]


@dataclass(frozen=True, kw_only=True)
class Annotated:
    """An utterance with its slots, spans of characters, in order."""

    row: Mapping[str, Any]
    text: str
    split: str
    slots: tuple[Slot, ...]

    @classmethod
    def of_table(cls, utterances: pa.Table) -> Iterator["Annotated"]:
        for row in rows_of(utterances.select(_READ)):
            runs = tagged_slots(row["slot_tags"])
            spans = token_spans(row["text"], row["tokens"]) if runs else []
            slots = tuple(Slot(run.type, spans[run.start][0], spans[run.end - 1][1]) for run in runs)
            yield cls(row=row, text=row["text"], split=row["split"], slots=slots)

    def value(self, slot: Slot) -> str:
        return self.text[slot.start : slot.end]

    def rebuilt(self, slots: Sequence[Slot], new: Sequence[str]) -> str:
        """Return the text with new values for some slots, given in order."""
        spans = [(slot.start, slot.end) for slot in slots]
        return normalise(spliced(self.text, list(zip(spans, new, strict=True))))


def compared_form(value: str) -> str:
    """Normalise a value for comparison, which ignores case and spacing."""
    return normalise(" ".join(value.split()).casefold())


def hash_of(text: str) -> int:
    """Return 64 bits of the BLAKE2b hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


ValueSource = Literal["test", "train", "all"]


@dataclass(frozen=True, kw_only=True)
class TemplatePairConfig(Settings):
    """Which template pairs are made.

    Attributes:
        splits: splits of the sources.
        values: split to draw slot values from; `test` falls back to train where a slot type has no other value in test,
            `train` never falls back, `all` draws from every split.
        seed: random seed of the draws.
        n_targets: targets per source; fewer if there are not enough values.
        dedup: use a text as a target only once across all sources.
    """

    splits: NotEmpty = ("test",)
    values: ValueSource = "test"
    seed: Seed = 0
    n_targets: Count = 5
    dedup: bool = True


def template_pairs(utterances: pa.Table, config: TemplatePairConfig) -> pa.Table:
    """Replace every slot value of each source by another one of its type, in the schema `template_pairs`.

    Values are drawn by rendezvous hashing (Thaler and Ravishankar 1998, doi:10.1109/90.663936): of the values of a
    type, the one with the smallest hash of value, seed, utterance, slot and target. So an edit of the corpus changes
    only the targets of edited utterances, those that draw a removed or new value and, with `dedup`, those whose text
    such a target now uses or no longer uses.
    """
    for column in ("corpus", "language"):
        if len(values := utterances[column].unique().to_pylist()) > 1:
            raise ValueError(f"template pairs are made for one {column} at a time, found {commas(values)}")
    pools = _value_pools(Annotated.of_table(utterances), config.values)
    sources = Annotated.of_table(utterances.filter(pc.is_in(utterances["split"], pa.array(config.splits))))
    taken: set[str] = set()
    rows = (
        row
        for source in sources
        if source.slots and (choices := _choices(source, pools))
        for row in _targets(source, choices, config, taken)
    )
    return rows_table(rows, "template_pairs")


@dataclass(frozen=True, kw_only=True)
class _Values:
    """Distinct values of one slot type: the index of each compared form, and texts and hashes by index."""

    indices: Mapping[str, int]
    texts: tuple[str, ...]
    hashes: UInt64[np.ndarray, " values"]

    @classmethod
    def of(cls, values: set[str]) -> "_Values":
        text_of = {compared_form(value): value for value in sorted(values, reverse=True)}
        forms = sorted(text_of)
        return cls(
            indices={form: index for index, form in enumerate(forms)},
            texts=tuple(text_of[form] for form in forms),
            hashes=np.array([hash_of(form) for form in forms], dtype=np.uint64),
        )


_Pool = Mapping[str, _Values]


def _value_pools(sources: Iterable[Annotated], values: ValueSource) -> list[_Pool]:
    """Return values by slot type: the pool to draw from, then the pool to fall back to."""
    texts_by_type: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for source in sources:
        for slot in source.slots:
            texts_by_type["all" if values == "all" else source.split][slot.type].add(source.value(slot))
    pools = {"test": ["test", "train"], "train": ["train"], "all": ["all"]}[values]
    return [{name: _Values.of(texts) for name, texts in texts_by_type[split].items()} for split in pools]


_Choice = tuple[_Values, int | None]
"""Values to draw from, and the index of the old value if it is one of them."""


def _choices(source: Annotated, pools: Sequence[_Pool]) -> list[_Choice] | None:
    """Return, for each slot, values of the first pool that has a different one; None if no pool has any."""
    choices: list[_Choice] = []
    for slot in source.slots:
        form = compared_form(source.value(slot))
        candidates = [(pool[slot.type], pool[slot.type].indices.get(form)) for pool in pools if slot.type in pool]
        usable = [(values, old) for values, old in candidates if len(values.texts) > (old is not None)]
        if not usable:
            return None
        choices.append(usable[0])
    return choices


def _targets(
    source: Annotated, choices: Sequence[_Choice], config: TemplatePairConfig, taken: set[str]
) -> list[dict[str, Any]]:
    """Make the rows of one source, and add their texts to `taken`; with `dedup` skip texts already in `taken`."""
    excluded = taken if config.dedup else set()
    rows, used = [], {source.text}
    for orders in _orders(source, choices, config):
        short = takewhile(lambda new: sum(map(len, new)) <= MOST_CHARACTERS, _drawn(choices, orders))
        texts = ((new, source.rebuilt(source.slots, new)) for new in short)
        target = next(((new, text) for new, text in texts if text not in used and text not in excluded), None)
        if target is None:  # all combinations are used, for later targets too, or the text would be too long
            break
        new, text = target
        replaced = [
            {"slot": slot.type, "old": source.value(slot), "new": value}
            for slot, value in zip(source.slots, new, strict=True)
        ]
        rows.append(
            {
                "corpus": source.row["corpus"],
                "language": source.row["language"],
                "split": source.split,
                "source_utterance_id": source.row["utterance_id"],
                "target_index": len(rows),
                "source_text": source.text,
                "target_text": text,
                "replaced_slots": replaced,
            }
        )
        used.add(text)
    taken |= used - {source.text}
    return rows


_SORTED_FIRST = 8  # values sorted at first: of thousands, mostly the first is taken


class _Order:
    """Indices of all values except the old one, by ascending hash, sorted only as far as requested."""

    def __init__(self, hashes: UInt64[np.ndarray, " values"], old: int | None) -> None:
        self._hashes, self._old = hashes, old
        self._indices: Int64[np.ndarray, " sorted"] = np.zeros(0, dtype=np.int64)
        self._expected = _SORTED_FIRST

    def __len__(self) -> int:
        return len(self._hashes) - (self._old is not None)

    def __getitem__(self, rank: int) -> int:
        while rank >= len(self._indices):
            self._sort()
        return int(self._indices[rank])

    def _sort(self) -> None:
        """Sort the values with hashes below a bound, about as many as expected, or all of them."""
        indices = np.arange(len(self._hashes))
        if self._expected < len(indices):
            indices = np.flatnonzero(self._hashes < np.uint64((self._expected << 64) // len(indices)))
        indices = indices[np.argsort(self._hashes[indices], kind="stable")]
        self._indices = indices[indices != self._old]
        self._expected *= 8


def _orders(source: Annotated, choices: Sequence[_Choice], config: TemplatePairConfig) -> Iterator[list[_Order]]:
    """Yield, for each target, the order of the values of each slot."""
    steps = np.arange(1, config.n_targets + 1, dtype=np.uint64) * GOLDEN
    keys = [hash_of(f"{config.seed}\x1f{source.row['utterance_id']}\x1f{slot}") for slot in range(len(choices))]
    hashes = [
        mixed(mixed(np.uint64(key) + steps)[:, None] ^ values.hashes)
        for key, (values, _) in zip(keys, choices, strict=True)
    ]
    for of_target in zip(*hashes, strict=True):
        yield [_Order(of_slot, old) for of_slot, (_, old) in zip(of_target, choices, strict=True)]


def _drawn(choices: Sequence[_Choice], orders: Sequence[_Order]) -> Iterator[list[str]]:
    """Yield combinations of one new value per slot, by the sum of their ranks, then by the rank of the earlier slot."""
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

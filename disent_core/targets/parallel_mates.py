"""Make parallel mates: replace the same slots on both sides of a translation pair.

The new values of a slot come from one training utterance in both languages: *berlin* and *berlin* become *munich* and
*münchen*. A mate has the template of its utterance in each language, and is a translation pair itself. If values are
drawn by the source alone, the mates of an utterance in several languages are translations of each other too.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import UInt64

from disent_core.corpora.annotation import Slot
from disent_core.random_bits import mixed
from disent_core.settings import Count, Seed, Settings
from disent_core.storage.tables import rows_table
from disent_core.targets.template_pairs import Annotated, compared_form, hash_of
from disent_core.text import MOST_CHARACTERS

Mate = tuple[tuple[str, str], Mapping[str, tuple[str, str]]]
"""Texts of a mate in both languages, and its new slot values by type."""
TRAINING_SPLITS = ("train", "dev")  # splits whose utterances get mates; values come from train


@dataclass(frozen=True, kw_only=True)
class ParallelMateConfig(Settings):
    """Which parallel mates are made: translation pairs with other values in the slots of both sides.

    Attributes:
        n_mates: mates per utterance; fewer if there are not enough values.
        seed: random seed of the draws.
        draw: draw values `by_pair`, from those that both languages have, or `by_source`, from those of the source
            alone. `by_source` gives an utterance the same source mates for every target language, which heads of many
            languages train on; if the target lacks a value, that mate is left out.
    """

    n_mates: Count = 2
    seed: Seed = 0
    draw: Literal["by_pair", "by_source"] = field(default="by_pair", repr=False)


def parallel_mates(pair: str, source: pa.Table, target: pa.Table, config: ParallelMateConfig) -> pa.Table:
    """Make the mates of a corpus's utterances in two languages, in the schema `parallel_mates`.

    Slots are aligned by type: those whose type occurs once on both sides are replaced, all others stay. The values of a
    slot are drawn by rendezvous hashing (Thaler and Ravishankar 1998, doi:10.1109/90.663936): the first mate gets the
    pair of values with the smallest hash of values, seed, utterance and type, the second the next, in a circle. Pairs
    that keep the value of either language are left out. So an edit of the corpus changes only the mates of edited
    utterances and those that draw a removed or new pair of values.
    """
    sources = list(_trained_on(source))
    targets = {utterance.row["utterance_id"]: utterance for utterance in _trained_on(target)}
    translations = [
        _Aligned.of(utterance, targets[utterance.row["utterance_id"]])
        for utterance in sources
        if utterance.row["utterance_id"] in targets
    ]
    if config.draw == "by_source":
        donors = _Donors.of(sources, translations)
        drawn = ((aligned, _by_source(aligned, donors, config)) for aligned in translations)
    else:
        pairs: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for aligned in translations:
            if aligned.source.split == "train":
                for slot_type in aligned.slots:
                    pairs[slot_type].add(aligned.values(slot_type))
        values = {slot_type: _Values.of(of_type) for slot_type, of_type in pairs.items()}
        drawn = ((aligned, _by_pair(aligned, values, config)) for aligned in translations)
    rows = (row for aligned, values in drawn for row in _mates(aligned, pair, values))
    return rows_table(rows, "parallel_mates")


def _trained_on(utterances: pa.Table) -> Iterator[Annotated]:
    return Annotated.of_table(utterances.filter(pc.is_in(utterances["split"], value_set=pa.array(TRAINING_SPLITS))))


@dataclass(frozen=True)
class _Aligned:
    """An utterance in two languages, with both slots of each type that occurs once in each language."""

    source: Annotated
    target: Annotated
    slots: Mapping[str, tuple[Slot, Slot]]

    @classmethod
    def of(cls, source: Annotated, target: Annotated) -> "_Aligned":
        counts = [Counter(slot.type for slot in side.slots) for side in (source, target)]
        of_target = {slot.type: slot for slot in target.slots}
        slots = {
            slot.type: (slot, of_target[slot.type])
            for slot in source.slots
            if all(count[slot.type] == 1 for count in counts)
        }
        return cls(source, target, slots)

    def values(self, slot_type: str) -> tuple[str, str]:
        """Return the values of a slot in both languages."""
        of_source, of_target = self.slots[slot_type]
        return self.source.value(of_source), self.target.value(of_target)

    def with_values(self, new: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
        """Return both texts with new values for some slot types."""
        texts = []
        for side, utterance in enumerate((self.source, self.target)):
            slots = [slot for slot in utterance.slots if slot.type in new]
            texts.append(utterance.rebuilt(slots, [new[slot.type][side] for slot in slots]))
        return texts[0], texts[1]


@dataclass(frozen=True)
class _Ranked:
    """Sorted items with their hashes, to be drawn by rendezvous hashing."""

    items: Sequence[Any]
    hashes: UInt64[np.ndarray, " items"]

    @classmethod
    def of(cls, items: Iterable[Any], name: Callable[[Any], str] = str) -> "_Ranked":
        items = sorted(set(items))
        return cls(items, np.array([hash_of(name(item)) for item in items], dtype=np.uint64))

    def drawn(self, salt: int) -> Iterator[Any]:
        """Yield all items, by ascending hash with the salt."""
        order = np.argsort(mixed(np.uint64(salt) ^ self.hashes), kind="stable")
        return (self.items[index] for index in order)


@dataclass(frozen=True)
class _Values:
    """Distinct pairs of values of one slot type, by their compared forms."""

    texts: Mapping[tuple[str, str], tuple[str, str]]
    ranked: _Ranked

    @classmethod
    def of(cls, pairs: set[tuple[str, str]]) -> "_Values":
        texts = {_forms(pair): pair for pair in sorted(pairs, reverse=True)}
        return cls(texts, _Ranked.of(texts, "\x1f".join))

    def others(self, old: tuple[str, str], salt: int, count: int) -> list[tuple[str, str]]:
        """Return up to `count` pairs of smallest hash that differ from the old one in both languages."""
        source, target = _forms(old)
        others = (forms for forms in self.ranked.drawn(salt) if forms[0] != source and forms[1] != target)
        return [self.texts[forms] for forms in islice(others, count)]


def _forms(pair: tuple[str, str]) -> tuple[str, str]:
    return compared_form(pair[0]), compared_form(pair[1])


def _by_pair(aligned: _Aligned, values: Mapping[str, _Values], config: ParallelMateConfig) -> dict[int, Mate]:
    """Return the mates by number; none if no slot is aligned or has other values of its type."""
    drawn: dict[str, list[tuple[str, str]]] = {}
    for slot_type in aligned.slots:
        old, salt = aligned.values(slot_type), _salt(aligned, slot_type, config)
        if slot_type in values and (others := values[slot_type].others(old, salt, config.n_mates)):
            drawn[slot_type] = others
    mates: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for number in range(config.n_mates if drawn else 0):
        new = {slot_type: others[number % len(others)] for slot_type, others in drawn.items()}
        if not _is_long(texts := aligned.with_values(new)):
            mates.setdefault(texts, new)
    return dict(enumerate(mates.items()))


@dataclass(frozen=True)
class _Donors:
    """Values, in compared form, of each slot type in training utterances of the source that have the type once.

    `by_value` has the ids of utterances with a type and value; `aligned` has the utterances of both languages by id.
    """

    values: Mapping[str, _Ranked]
    by_value: Mapping[tuple[str, str], _Ranked]
    aligned: Mapping[str, _Aligned]

    @classmethod
    def of(cls, source: Iterable[Annotated], translations: Iterable[_Aligned]) -> "_Donors":
        ids: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for utterance in source:
            if utterance.split == "train":
                for slot_type, value in _single_values(utterance).items():
                    ids[slot_type][value].append(utterance.row["utterance_id"])
        return cls(
            {slot_type: _Ranked.of(values) for slot_type, values in ids.items()},
            {(slot_type, value): _Ranked.of(keys) for slot_type, of in ids.items() for value, keys in of.items()},
            {aligned.source.row["utterance_id"]: aligned for aligned in translations},
        )


def _single_values(utterance: Annotated) -> dict[str, str]:
    """Return the value, in compared form, of each slot type that the utterance has once."""
    count = Counter(slot.type for slot in utterance.slots)
    return {slot.type: compared_form(utterance.value(slot)) for slot in utterance.slots if count[slot.type] == 1}


def _by_source(aligned: _Aligned, donors: _Donors, config: ParallelMateConfig) -> dict[int, Mate]:
    """Return the mates by number; number and source values depend on the source utterances alone.

    A value comes from an utterance that has it, the same one for all target languages. If the target, or the utterance
    that provides the value, lacks the same slots, there is no such mate in this language.
    """
    drawn: dict[str, list[str]] = {}
    for slot_type, old in _single_values(aligned.source).items():
        salt = _salt(aligned, slot_type, config)
        if slot_type in donors.values:
            others = islice((value for value in donors.values[slot_type].drawn(salt) if value != old), config.n_mates)
            if keys := [next(donors.by_value[slot_type, value].drawn(salt)) for value in others]:
                drawn[slot_type] = keys
    mates: dict[int, Mate] = {}
    for number in range(max(map(len, drawn.values()), default=0)):
        sources = {slot_type: donors.aligned.get(keys[number % len(keys)]) for slot_type, keys in drawn.items()}
        new = {
            slot_type: donor.values(slot_type)
            for slot_type, donor in sources.items()
            if donor is not None and slot_type in donor.slots and slot_type in aligned.slots
        }
        if len(new) == len(sources):
            texts = aligned.with_values(new)
            if texts[1] != aligned.target.text and not _is_long(texts):
                mates[number] = texts, new
    return mates


def _is_long(texts: tuple[str, str]) -> bool:
    return max(map(len, texts)) > MOST_CHARACTERS


def _salt(aligned: _Aligned, slot_type: str, config: ParallelMateConfig) -> int:
    return hash_of(f"{config.seed}\x1f{aligned.source.row['utterance_id']}\x1f{slot_type}")


def _mates(aligned: _Aligned, pair: str, drawn: Mapping[int, Mate]) -> Iterator[dict[str, Any]]:
    for index, ((source, target), new) in drawn.items():
        yield {
            "corpus": aligned.source.row["corpus"],
            "pair": pair,
            "split": aligned.source.split,
            "utterance_id": aligned.source.row["utterance_id"],
            "mate_index": index,
            "source_language": aligned.source.row["language"],
            "target_language": aligned.target.row["language"],
            "source_text": source,
            "target_text": target,
            "replaced_slots": [
                dict(zip(_REPLACED, (slot_type, old[0], to[0], old[1], to[1]), strict=True))
                for slot_type, to in new.items()
                for old in [aligned.values(slot_type)]
            ],
        }


_REPLACED = ("slot", "source_old", "source_new", "target_old", "target_new")

"""Make parallel mates: a translation pair with the same slots replaced on both sides, still a translation pair.

The new values of a slot are those that both languages have in one training utterance: *berlin* and *berlin* become
*munich* and *münchen*. A mate has the template of its utterance in each language, and is a translation pair itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import UInt64

from disent_core.corpora.annotation import Slot
from disent_core.random_bits import mixed
from disent_core.settings import Count, Seed, Settings
from disent_core.storage.tables import rows_table
from disent_core.targets.slot_values import Annotated, compared_form, hash_of
from disent_core.text import MOST_CHARACTERS

TRAINING_SPLITS = ("train", "dev")  # splits whose utterances get mates; the values are those of train


@dataclass(frozen=True, kw_only=True)
class ParallelMateConfig(Settings):
    """Which parallel mates are made: translation pairs with other values in the slots of both sides.

    Attributes:
        n_mates: mates of an utterance, fewer where its values do not suffice.
        seed: of the draws.
    """

    n_mates: Count = 2
    seed: Seed = 0


def parallel_mates(pair: str, source: pa.Table, target: pa.Table, config: ParallelMateConfig) -> pa.Table:
    """Make the mates of a corpus's utterances in two languages, in the schema `parallel_mates`.

    Slots are aligned by type: those whose type occurs once on both sides are replaced, all others stay. The values of a
    slot are drawn by rendezvous hashing (Thaler and Ravishankar 1998, doi:10.1109/90.663936): the first mate gets the
    pair of values with the smallest hash of values, seed, utterance and type, the second the next, in a circle. Pairs
    that keep the value of either language are left out. So an edit of the corpus changes only the mates of edited
    utterances and those that draw a removed or new pair of values.
    """
    targets = {utterance.row["utterance_id"]: utterance for utterance in _trained_on(target)}
    translations = [
        _Aligned.of(utterance, targets[utterance.row["utterance_id"]])
        for utterance in _trained_on(source)
        if utterance.row["utterance_id"] in targets
    ]
    values = _values_by_type(aligned for aligned in translations if aligned.source.split == "train")
    rows = (row for aligned in translations for row in _mates(aligned, pair, values, config))
    return rows_table(rows, "parallel_mates")


def _trained_on(utterances: pa.Table) -> Iterator[Annotated]:
    return Annotated.of_table(utterances.filter(pc.is_in(utterances["split"], value_set=pa.array(TRAINING_SPLITS))))


@dataclass(frozen=True)
class _Aligned:
    """An utterance in two languages, and for each slot type that both have once the slot of either."""

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
        """Return both texts with other values of some slot types."""
        texts = []
        for side, utterance in enumerate((self.source, self.target)):
            slots = [slot for slot in utterance.slots if slot.type in new]
            texts.append(utterance.rebuilt(slots, [new[slot.type][side] for slot in slots]))
        return texts[0], texts[1]


@dataclass(frozen=True)
class _Values:
    """Distinct pairs of values of one slot type, by their compared forms, with a hash of each."""

    texts: Mapping[tuple[str, str], tuple[str, str]]
    forms: Sequence[tuple[str, str]]
    hashes: UInt64[np.ndarray, " values"]

    @classmethod
    def of(cls, pairs: set[tuple[str, str]]) -> "_Values":
        texts = {_forms(pair): pair for pair in sorted(pairs, reverse=True)}
        forms = sorted(texts)
        return cls(texts, forms, np.array([hash_of("\x1f".join(pair)) for pair in forms], dtype=np.uint64))

    def others(self, old: tuple[str, str], salt: int, count: int) -> list[tuple[str, str]]:
        """Return the pairs of smallest hash that differ from the old one in both languages, at most `count`."""
        source, target = _forms(old)
        order = np.argsort(mixed(np.uint64(salt) ^ self.hashes), kind="stable")
        others = (forms for index in order if (forms := self.forms[index])[0] != source and forms[1] != target)
        return [self.texts[forms] for forms in islice(others, count)]


def _forms(pair: tuple[str, str]) -> tuple[str, str]:
    return compared_form(pair[0]), compared_form(pair[1])


def _values_by_type(translations: Iterable[_Aligned]) -> dict[str, _Values]:
    pairs: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for aligned in translations:
        for slot_type in aligned.slots:
            pairs[slot_type].add(aligned.values(slot_type))
    return {slot_type: _Values.of(of_type) for slot_type, of_type in pairs.items()}


def _mates(
    aligned: _Aligned, pair: str, values: Mapping[str, _Values], config: ParallelMateConfig
) -> Iterator[dict[str, Any]]:
    """Yield the mates of one utterance: none if it has no aligned slot, or one of a type without other values."""
    utterance = aligned.source.row["utterance_id"]
    drawn: dict[str, list[tuple[str, str]]] = {}
    for slot_type in aligned.slots:
        salt = hash_of(f"{config.seed}\x1f{utterance}\x1f{slot_type}")
        old = aligned.values(slot_type)
        if slot_type in values and (others := values[slot_type].others(old, salt, config.n_mates)):
            drawn[slot_type] = others
    texts = {}
    for number in range(config.n_mates if drawn else 0):
        new = {slot_type: others[number % len(others)] for slot_type, others in drawn.items()}
        source, target = aligned.with_values(new)
        if max(len(source), len(target)) <= MOST_CHARACTERS:
            texts.setdefault((source, target), new)
    for index, ((source, target), new) in enumerate(texts.items()):
        yield {
            "corpus": aligned.source.row["corpus"],
            "pair": pair,
            "split": aligned.source.split,
            "utterance_id": utterance,
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

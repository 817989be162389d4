"""Select a tagger's training sentences: few of the target language and, for transfer, all of a source language."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.errors import TrainingError
from disent_core.methods.families import FewShotConfig


class Tagged(NamedTuple):
    """A sentence with its slots; the language decides whether its words have spaces between them."""

    tokens: Sequence[str]
    tags: Sequence[str]
    language: str = ""


def training_phases(
    train: Sequence[Tagged], config: FewShotConfig, seed: int, source: Sequence[Tagged]
) -> dict[str, Sequence[Tagged]]:
    """Sentences by training phase: `source`, if transfer is sequential, then the sample of the target language.

    Raises:
        TrainingError: if there is no source for the transfer, or there are fewer sentences than examples.
    """
    target = sample_sentences(train, config.examples, seed, config.sample) if config.examples else list(train)
    if config.transfer == "none":
        return {"target": target}
    if not source:
        raise TrainingError("transfer is 'sequential' and there is no sentence of a source language. Set it to 'none'")
    return {"source": source, "target": target}


def sample_sentences(
    sentences: Sequence[Tagged], count: int, seed: int, how: Literal["random", "cover_types"]
) -> list[Tagged]:
    """Draw `count` different sentences; with `cover_types` every slot type is among them, as far as `count` allows.

    Raises:
        TrainingError: if there are fewer sentences.
    """
    if count > len(sentences):
        raise TrainingError(f"examples is {count} and there are {len(sentences)} training sentences. Lower examples")
    order = np.random.default_rng((seed, 4)).permutation(len(sentences)).tolist()
    if how == "cover_types":
        order = [*(cover := _cover(sentences, order)), *(place for place in order if place not in set(cover))]
    return [sentences[place] for place in order[:count]]


def slot_types(sentences: Sequence[Tagged]) -> tuple[str, ...]:
    """Return the types that occur, sorted."""
    return tuple(sorted({slot.type for sentence in sentences for slot in slots_of(sentence)}))


def slots_of(sentence: Tagged) -> list[Slot]:
    """Return the slots of a sentence.

    Raises:
        ValueError: if its numbers of tags and words differ.
    """
    if len(sentence.tokens) != len(sentence.tags):
        counts = f"{len(sentence.tokens)} words and {len(sentence.tags)} tags"
        raise ValueError(f"the sentence {' '.join(sentence.tokens)!r} has {counts}")
    return tagged_slots(sentence.tags)


def _cover(sentences: Sequence[Tagged], order: Sequence[int]) -> list[int]:
    """Return sentences that have all types: the first one in `order` for each type, rare types first."""
    types = {place: {slot.type for slot in slots_of(sentences[place])} for place in order}
    counts: dict[str, int] = {}
    for place in order:
        for slot_type in types[place]:
            counts[slot_type] = counts.get(slot_type, 0) + 1
    cover: list[int] = []
    covered: set[str] = set()
    for slot_type in sorted(counts, key=lambda slot_type: (counts[slot_type], slot_type)):
        if slot_type not in covered:
            cover.append(next(place for place in order if slot_type in types[place]))
            covered |= types[cover[-1]]
    return cover

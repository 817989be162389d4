"""Read the slots of annotated utterances, and compare and replace their values."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.storage.tables import rows_of
from disent_core.text import normalise, spliced, token_spans

_READ = ["corpus", "language", "utterance_id", "split", "text", "tokens", "slot_tags"]


@dataclass(frozen=True, kw_only=True)
class Annotated:
    """An utterance; its slots are spans of characters, in order."""

    row: Mapping[str, Any]
    text: str
    split: str
    slots: tuple[Slot, ...]

    @classmethod
    def of_table(cls, utterances: pa.Table) -> Iterator["Annotated"]:
        """Yield the rows of the table `utterances`."""
        for row in rows_of(utterances.select(_READ)):
            runs = tagged_slots(row["slot_tags"])
            spans = token_spans(row["text"], row["tokens"]) if runs else []
            slots = tuple(Slot(run.type, spans[run.start][0], spans[run.end - 1][1]) for run in runs)
            yield cls(row=row, text=row["text"], split=row["split"], slots=slots)

    def value(self, slot: Slot) -> str:
        """Return the text of a slot."""
        return self.text[slot.start : slot.end]

    def rebuilt(self, slots: Sequence[Slot], new: Sequence[str]) -> str:
        """Return the text with other values of some slots, which are in order."""
        spans = [(slot.start, slot.end) for slot in slots]
        return normalise(spliced(self.text, list(zip(spans, new, strict=True))))


def compared_form(value: str) -> str:
    """Normalise a value for comparison: case and spacing are ignored."""
    return normalise(" ".join(value.split()).casefold())


def hash_of(text: str) -> int:
    """Return 64 bits of BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

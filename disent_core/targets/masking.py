"""Mask annotated utterances to make templates and residuals.

A template is an utterance with its slot values masked; a residual is the slot values with the template masked (FMDA,
figure 3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Literal

import pyarrow as pa

from disent_core.corpora.annotation import OUTSIDE
from disent_core.settings import Settings
from disent_core.storage.tables import rows_of, rows_table
from disent_core.text import (
    HIDDEN_CLOSE,
    HIDDEN_OPEN,
    MASK,
    SUBWORD_MASK_CLOSE,
    SUBWORD_MASK_OPEN,
    spliced,
    text_key,
    token_spans,
)

Mask = Literal["word", "subword", "span", "delete", "attention"]
NoSlotResidual = Literal["skip", "all_masked"]
Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig(Settings):
    """How the masked versions of an utterance are written.

    Attributes:
        mask: `word` writes one mask for each masked token, `span` one for each run of masked tokens; `delete` drops
            them; `subword` and `attention` keep them between markers, and the encoder masks each subword, or lets no
            token attend to them.
        no_slot_residual: residual of an utterance without slots: none (`skip`), or the whole utterance masked
            (`all_masked`).
    """

    mask: Mask = "word"
    no_slot_residual: NoSlotResidual = "skip"


def mask_utterances(utterances: pa.Table, config: MaskingConfig) -> pa.Table:
    """Make the template and residual texts of each utterance, in the schema `masked_utterances`."""
    rows = rows_of(utterances.select([*_IDENTITY, "text", "tokens", "slot_tags"]))
    return rows_table((_masked(row, config) for row in rows), "masked_utterances")


_IDENTITY = ("corpus", "language", "utterance_id")


def _masked(row: Mapping[str, Any], config: MaskingConfig) -> dict[str, Any]:
    text, spans = row["text"], token_spans(row["text"], row["tokens"])
    in_slot = [tag != OUTSIDE for tag in row["slot_tags"]]
    template, residual = write_masked(text, spans, in_slot, config.mask), None
    if any(in_slot) or config.no_slot_residual == "all_masked":
        residual = write_masked(text, spans, [not inside for inside in in_slot], config.mask)
    return {
        **{name: row[name] for name in _IDENTITY},
        "template_text": template,
        "residual_text": residual,
        "template_key": text_key(template),
        "residual_key": None if residual is None else text_key(residual),
    }


def write_masked(text: str, spans: Sequence[Span], masked: Sequence[bool], mask: Mask) -> str:
    """Write the masked tokens of a text as `mask` specifies; all other spacing is kept."""
    if mask == "delete":
        return _without(text, spans, masked) or MASK
    if mask == "word":
        return spliced(text, [(span, MASK) for span, hidden in zip(spans, masked, strict=True) if hidden])
    runs = [
        (run[0][0][0], run[-1][0][1])  # start of the first and end of the last of adjacent masked tokens
        for hidden, group in groupby(zip(spans, masked, strict=True), key=itemgetter(1))
        if hidden and (run := list(group))
    ]
    if mask == "span":
        return spliced(text, [(run, MASK) for run in runs])
    before, after = _MARKERS_OF[mask]
    return spliced(text, [((start, end), f"{before}{text[start:end]}{after}") for start, end in runs])


_MARKERS_OF = {"subword": (SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE), "attention": (HIDDEN_OPEN, HIDDEN_CLOSE)}


def _without(text: str, spans: Sequence[Span], masked: Sequence[bool]) -> str:
    """Drop masked tokens; keep the wider of the two gaps around a dropped run."""
    kept = [index for index, hidden in enumerate(masked) if not hidden]
    pieces = [text[slice(*spans[index])] for index in kept[:1]]
    for previous, index in pairwise(kept):
        before = text[spans[previous][1] : spans[previous + 1][0]]
        after = text[spans[index - 1][1] : spans[index][0]]
        pieces += [max(before, after, key=len), text[slice(*spans[index])]]
    return "".join(pieces)

"""Features of spans: masked sentence and span text through the same encoder, each distinct text once.

The published protocol calls the encoder twice for each candidate span. But the text of a span recurs, within a
sentence and between them, so distinct texts are encoded once, in batches of equal length, and a batch of
features is a gather.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.heads.twosl.spans import SpanItems
from disent_core.methods.twosl import ConcatNorm


@dataclass(frozen=True)
class Distinct:
    """The distinct texts of a list, and for each item of the list its row among them."""

    texts: list[str]
    rows: Int[np.ndarray, " texts"]


def distinct(texts: Sequence[str]) -> Distinct:
    """Return the distinct texts in the order of their first occurrence."""
    row_of_text = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return Distinct(list(row_of_text), np.fromiter((row_of_text[text] for text in texts), np.int64, len(texts)))


@dataclass(frozen=True)
class ItemFeatures:
    """Features of items, stored as the vectors of distinct texts."""

    masked: Float[Tensor, "sentences dim"]
    spans: Float[Tensor, "spans dim"]
    masked_rows: Int[Tensor, " items"]
    span_rows: Int[Tensor, " items"]
    concat_norm: ConcatNorm

    def __len__(self) -> int:
        return len(self.masked_rows)

    def take(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, "chosen features"]:
        """Return the features of these items, which are twice as wide as the encoder."""
        items = items.to(self.masked_rows.device)
        return joined(self.masked[self.masked_rows[items]], self.spans[self.span_rows[items]], self.concat_norm)


def joined(
    masked: Float[Tensor, "items dim"], spans: Float[Tensor, "items dim"], concat_norm: ConcatNorm
) -> Float[Tensor, "items features"]:
    """Concatenate the vectors of masked sentence and span.

    The cosine of such vectors is a mean of both parts' cosines weighted by norms; `l2_each` gives both parts the same
    weight.
    """
    parts = (masked, spans) if concat_norm == "none" else (F.normalize(masked, dim=-1), F.normalize(spans, dim=-1))
    return torch.cat(parts, dim=-1)


def encode_items(encoder: TunableEncoder, items: SpanItems, *, concat_norm: ConcatNorm) -> ItemFeatures:
    """Return the features of all items."""
    masked, spans = distinct(items.masked), distinct(items.texts)
    return ItemFeatures(
        encoder.vectors(masked.texts),
        encoder.vectors(spans.texts),
        torch.from_numpy(masked.rows).to(encoder.device),
        torch.from_numpy(spans.rows).to(encoder.device),
        concat_norm,
    )

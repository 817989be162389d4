"""Stage 1 of TWOSL: the encoder learns that spans of one slot type are close."""

from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.heads.twosl.features import ConcatNorm, distinct, joined
from disent_core.heads.twosl.span_pairs import SpanPairs
from disent_core.heads.twosl.spans import SpanItems
from disent_core.training.loop import Pass, Recipe, Run, optimise

Form = Literal["sbert", "paper_eq"]
Hard = Literal["sbert", "margin", "none"]
LonePair = Literal["mean", "extreme"]


def span_contrast(
    distance: Float[Tensor, " pairs"],
    is_same: Bool[Tensor, " pairs"],
    *,
    margin: float,
    form: Form,
    hard: Hard,
    lone_pair: LonePair,
) -> Float[Tensor, " pairs"]:
    """Pull spans of one type together, push those of different types beyond a margin; easy pairs cost 0.

    The paper prints d² for equal and [m - d²]+ for different types (`paper_eq`), and says that it runs the
    online contrastive loss of sentence-transformers, d² and [m - d]+² (`sbert`).

    Args:
        distance: 1 - cosine of each pair of a batch.
        is_same: whether its spans have one type.
        margin: m.
        form: which of the two formulas.
        hard: which pairs count. `sbert`: positives farther apart than the closest negative, and negatives
            closer than the farthest positive; `margin`, the paper's text: positives with d > m and negatives
            with d < m; `none`: all.
        lone_pair: what `sbert` compares with where a batch has one positive (or negative): the `extreme` is
            that one, as in today's sentence-transformers; at the time of the paper it was the `mean` of the
            other side. Without any it is that mean in both.
    """
    positive = distance.square()
    negative = F.relu(margin - distance).square() if form == "sbert" else F.relu(margin - distance.square())
    loss = torch.where(is_same, positive, negative)
    if hard == "none":
        return loss
    if hard == "margin":
        return torch.where(is_same, distance > margin, distance < margin) * loss
    own, others = distance[is_same], distance[~is_same]
    fewest = 2 if lone_pair == "mean" else 1
    below = own.max() if len(own) >= fewest else others.mean()
    above = others.min() if len(others) >= fewest else own.mean()
    return torch.where(is_same, distance > above, distance < below) * loss


def tune_encoder(
    encoder: TunableEncoder,
    items: SpanItems,
    pairs: SpanPairs,
    recipe: Recipe,
    run: Run,
    *,
    concat_norm: ConcatNorm,
    margin: float,
    form: Form,
    hard: Hard,
    lone_pair: LonePair,
) -> Iterator[Pass]:
    """Train all weights of the encoder on the pairs; see `optimise`.

    A text that a batch has twice is encoded twice, as in sentence-transformers: dropout differs.
    """
    masked, spans = distinct(items.masked), distinct(items.texts)
    masked_tokens, span_tokens = encoder.tokenise(masked.texts), encoder.tokenise(spans.texts)
    is_same = torch.from_numpy(pairs.is_same).to(encoder.device)

    def encode(rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows features"]:
        chosen = rows.numpy()
        return joined(
            encoder(masked_tokens, masked.rows[chosen]), encoder(span_tokens, spans.rows[chosen]), concat_norm
        )

    first, second = torch.from_numpy(pairs.first), torch.from_numpy(pairs.second)

    def loss(rows: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        one, other = encode(torch.cat([first[rows], second[rows]])).chunk(2)
        distance = 1 - F.cosine_similarity(one, other)
        same = is_same[rows.to(is_same.device)]
        return span_contrast(distance, same, margin=margin, form=form, hard=hard, lone_pair=lone_pair)

    return optimise(encoder, loss, len(pairs), recipe, run)

"""Draw pairs of spans for the contrastive stage: of one slot type, and of different ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from disent_core.errors import TrainingError


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
    """Return every pair of items of one type, and for each of them random items of another type, or of none.

    Args:
        labels: slot type of each item, None if it is no slot.
        negatives_per_positive: the paper's 2K: K for either item of the positive pair, drawn independently;
            1 draws one of the two items, then one negative for it.
        max_positive_pairs: largest number of positive pairs; of more, this many different random ones are taken.
        seed: random seed of the draws.

    Returns:
        The pairs; at least one item of each has a type.

    Raises:
        TrainingError: if no two items have one type, or all items have the same.
        ValueError: if `negatives_per_positive` is neither 1 nor even.
    """
    if negatives_per_positive < 1 or (negatives_per_positive % 2 and negatives_per_positive != 1):
        raise ValueError(f"negatives_per_positive must be 1 or even, not {negatives_per_positive}")
    random = np.random.default_rng((seed, 5))
    groups = _Groups(labels)
    first, second = groups.positives(max_positive_pairs, random)
    if negatives_per_positive == 1:
        anchors = np.where(random.random(len(first)) < 0.5, first, second)
    else:
        half = negatives_per_positive // 2
        anchors = np.concatenate([np.repeat(first, half), np.repeat(second, half)])
    return SpanPairs(
        np.concatenate([first, anchors]),
        np.concatenate([second, groups.negatives(anchors, random)]),
        np.arange(len(first) + len(anchors)) < len(first),
    )


class _Groups:
    """Items sorted into blocks of one label each, the block without a type last."""

    def __init__(self, labels: Sequence[str | None]) -> None:
        types = sorted({label for label in labels if label is not None})
        codes: dict[str | None, int] = {label: code for code, label in enumerate(types)}
        self.code = np.array([codes.get(label, len(types)) for label in labels], np.int64)
        self.order = np.argsort(self.code, kind="stable")
        self.size = np.bincount(self.code, minlength=len(types) + 1)
        self.begin = np.cumsum(self.size) - self.size
        self.types = len(types)

    def positives(
        self, at_most: int, random: np.random.Generator
    ) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        # Number all pairs, type by type; `ends` are the numbers at which each type's pairs end.
        size = self.size[: self.types]
        ends = np.cumsum(size * (size - 1) // 2)
        total = int(ends[-1]) if len(ends) else 0
        if not total:
            raise TrainingError("no two training spans have one slot type. Set contrastive to false, or add examples")
        few = total <= at_most
        chosen = np.arange(total) if few else np.sort(random.choice(total, at_most, replace=False, shuffle=False))
        group = np.searchsorted(ends, chosen, side="right")
        low, high = _unrank(chosen - (ends - size * (size - 1) // 2)[group])
        return self.order[self.begin[group] + low], self.order[self.begin[group] + high]

    def negatives(
        self, anchors: Int[np.ndarray, " anchors"], random: np.random.Generator
    ) -> Int[np.ndarray, " anchors"]:
        """Return one item with another label for each anchor, drawn uniformly by skipping the anchor's block."""
        anchor_code = self.code[anchors]
        candidates = len(self.code) - self.size[anchor_code]
        if not candidates.all():
            raise TrainingError("all training spans have one label, so there is no negative. Add examples")
        drawn = random.integers(0, candidates)
        return self.order[drawn + np.where(drawn >= self.begin[anchor_code], self.size[anchor_code], 0)]


def _unrank(rank: Int[np.ndarray, " pairs"]) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Return the pair low < high of each rank, in the order (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    high = ((1 + np.sqrt(1 + 8 * rank.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > rank  # the square root may be off by one in the last bit
    high += high * (high + 1) // 2 <= rank
    return rank - high * (high - 1) // 2, high

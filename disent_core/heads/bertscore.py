"""`bertscore`: how near two texts are by greedy matching of their tokens, without a sentence vector.

Zhang et al. 2020, https://arxiv.org/abs/1904.09675: every token is matched to the nearest one of the other
text. Precision is the mean cosine over one text's tokens, recall over the other's, and the score their harmonic
mean F1, without idf weights and without rescaling. The layer is the encoder's setting.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.heads.families.untrained import UntrainedMethod
from disent_core.settings import Settings
from disent_core.training.data import TextFeatures
from disent_core.training.needs import Need

BLOCK_TOKENS = 2048
"""Tokens of either side whose cosines are held at once: 16 MB of them."""


@dataclass(frozen=True, kw_only=True)
class BertscoreConfig(Settings):
    """How tokens are compared.

    Attributes:
        center: subtract the mean token vector of the texts that are embedded together, queries and candidates
            separately (Libovicky, Rosa and Fraser 2020), before tokens are compared.
        special_tokens: the first and last token never count in precision and recall; with `match` other tokens may
            match them, as in the authors' package, with `drop` they are left out.
    """

    center: bool = False
    special_tokens: Literal["match", "drop"] = "match"


@dataclass(frozen=True)
class _Group:
    """Texts of equal length. Positions come first, so that a maximum over tokens is one of whole rows."""

    tokens: Float32[Tensor, "length texts dim"]
    weights: Float32[Tensor, "length texts"]
    places: Int[Tensor, " texts"]


@dataclass(frozen=True, eq=False)
class TokenMatrix:
    """A late interaction: unit token vectors of texts; text i has `values[offsets[i] : offsets[i + 1]]`.

    `weights` are those of tokens in their text's mean; a token of weight 0 is there to be matched.
    """

    values: Float32[Tensor, "tokens dim"]
    weights: Float32[Tensor, " tokens"]
    offsets: Int[Tensor, " texts_and_one"]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: Int[np.ndarray, " rows"]) -> "TokenMatrix":
        """Some of the texts, in that order."""
        positions, offsets = _positions(self.offsets[:-1][rows], self.offsets.diff()[rows])
        return TokenMatrix(self.values[positions], self.weights[positions], offsets)

    def identities(self) -> np.ndarray:
        """One value a text, equal for texts that are equal to the bit."""
        values, ends = self.values.numpy(), self.offsets.tolist()
        texts = [values[ends[i] : ends[i + 1]].tobytes() for i in range(len(self))]
        known = {text: place for place, text in reversed(list(enumerate(texts)))}
        return np.array([known[text] for text in texts])

    def similarity(self, pool: "TokenMatrix") -> Float32[np.ndarray, "queries pool"]:
        """F1 of every text with every text of the pool; 0 where a text has no token that counts.

        Cosines are one matrix product for two groups of texts of equal length: nothing is padded.
        """
        scores = torch.zeros(len(self), len(pool))
        for own in self._groups:
            for other in pool._groups:
                cosines = (own.tokens.flatten(0, 1) @ other.tokens.flatten(0, 1).T).view(
                    *own.weights.shape, *other.weights.shape
                )
                precision = (cosines.amax(2) * own.weights.unsqueeze(2)).sum(0)
                recall = (cosines.amax(0) * other.weights).sum(1)
                scores[own.places.unsqueeze(1), other.places] = harmonic_mean(precision, recall)
        return scores.numpy()

    def paired(self, other: "TokenMatrix") -> Float32[np.ndarray, " texts"]:
        """F1 of each text with that of the same row."""
        scores = torch.zeros(len(self))
        for place, ((left, left_weights), (right, right_weights)) in enumerate(
            zip(self._texts(), other._texts(), strict=True)
        ):
            if len(left) and len(right):
                cosines = left @ right.T
                scores[place] = harmonic_mean(cosines.amax(1) @ left_weights, cosines.amax(0) @ right_weights)
        return scores.numpy()

    def _texts(self) -> list[tuple[Tensor, Tensor]]:
        lengths = self.offsets.diff().tolist()
        return list(zip(self.values.split(lengths), self._shares.split(lengths), strict=True))

    @cached_property
    def _shares(self) -> Float32[Tensor, " tokens"]:
        """Weights that add up to 1 in each text."""
        owner = torch.repeat_interleave(torch.arange(len(self)), self.offsets.diff())
        totals = torch.zeros(len(self)).index_add(0, owner, self.weights)
        return self.weights / totals.clamp_min(1e-12)[owner]

    @cached_property
    def _groups(self) -> list[_Group]:
        lengths, groups = self.offsets.diff(), []
        for length in lengths.unique().tolist():
            if not length:
                continue
            for places in (lengths == length).nonzero().squeeze(1).split(max(BLOCK_TOKENS // length, 1)):
                positions = self.offsets[places] + torch.arange(length).unsqueeze(1)
                groups.append(_Group(self.values[positions], self._shares[positions], places))
        return groups


def harmonic_mean(left: Float[Tensor, "*n"], right: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """2 l r / (l + r); what is negative counts as 0."""
    left, right = left.clamp_min(0), right.clamp_min(0)
    return 2 * left * right / (left + right).clamp_min(1e-12)


def _positions(begin: Int[Tensor, " texts"], length: Int[Tensor, " texts"]) -> tuple[Tensor, Tensor]:
    """Rows of ragged texts, and their offsets when put one after another."""
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), length.cumsum(0)])
    return torch.repeat_interleave(begin - offsets[:-1], length) + torch.arange(int(offsets[-1])), offsets


def token_matrix(features: TextFeatures, config: BertscoreConfig) -> TokenMatrix:
    """Token states of the texts as they are compared.

    Raises:
        ValueError: if the features have no token states.
    """
    if features.states is None or features.state_rows is None:
        raise ValueError("bertscore needs token states, and these features have none")
    bank, rows = features.states, features.state_rows
    positions, offsets = _positions(bank.begin[rows], bank.length[rows])
    values, special = bank.values.take(positions), torch.zeros(len(positions), dtype=torch.bool)
    special[offsets[:-1]] = special[offsets[1:] - 1] = True
    if config.center and not special.all():
        values = values - values[~special].mean(0)
    matrix = TokenMatrix(F.normalize(values, dim=1), (~special).float(), offsets)
    return matrix if config.special_tokens == "match" else _without(matrix, special)


def _without(matrix: TokenMatrix, dropped: Tensor) -> TokenMatrix:
    kept = torch.cat([torch.zeros(1, dtype=torch.long), (~dropped).cumsum(0)])
    return TokenMatrix(matrix.values[~dropped], matrix.weights[~dropped], kept[matrix.offsets])


METHOD = UntrainedMethod(
    name="bertscore",
    presets={"paper": BertscoreConfig(), "centered": BertscoreConfig(center=True)},
    sentence=token_matrix,
    needs=frozenset({Need.TOKEN_STATES}),
)

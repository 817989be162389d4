"""Match the tokens of texts greedily, as `bertscore` compares them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor
from torch.nn import functional as F

from disent_core.methods.untrained import BertscoreConfig
from disent_core.training.data import TextFeatures, ragged_positions

BLOCK_TOKENS = 2048  # tokens of either side whose cosines are in memory at once (16 MB)


@dataclass(frozen=True, eq=False)
class TokenMatrix:
    """A late interaction: unit token vectors of texts; text i has `values[offsets[i] : offsets[i + 1]]`.

    `weights` are the tokens' weights in the mean of their text; a token of weight 0 can be matched but does not count.
    """

    values: Float32[Tensor, "tokens dim"]
    weights: Float32[Tensor, " tokens"]
    offsets: Int[Tensor, " texts_and_one"]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: Int[np.ndarray, " rows"]) -> "TokenMatrix":
        positions, offsets = ragged_positions(self.offsets[:-1][rows], self.offsets.diff()[rows])
        return TokenMatrix(self.values[positions], self.weights[positions], offsets)

    def identities(self) -> np.ndarray:
        """Return one number per text, equal for texts whose vectors are equal to the bit."""
        values, ends = self.values.numpy(), self.offsets.tolist()
        texts = [values[ends[i] : ends[i + 1]].tobytes() for i in range(len(self))]
        first_row = {text: row for row, text in reversed(list(enumerate(texts)))}
        return np.array([first_row[text] for text in texts])

    def similarity(self, pool: "TokenMatrix") -> Float32[np.ndarray, "queries pool"]:
        """Return the F1 of every text with every text of the pool; 0 where a text has no token that counts.

        Each pair of equal-length groups needs one matrix product and no padding.
        """
        scores = torch.zeros(len(self), len(pool))
        for tokens, weights, rows in self._groups:
            for other_tokens, other_weights, other_rows in pool._groups:
                # [query tokens, queries, candidate tokens, candidates]
                cosines = tokens.flatten(0, 1) @ other_tokens.flatten(0, 1).T
                cosines = cosines.view(*weights.shape, *other_weights.shape)
                # Each query token takes its best candidate token, [query tokens, queries, candidates], and vice versa.
                precision = (cosines.amax(2) * weights.unsqueeze(2)).sum(0)
                recall = (cosines.amax(0) * other_weights).sum(1)
                scores[rows.unsqueeze(1), other_rows] = harmonic_mean(precision, recall)
        return scores.numpy()

    def paired(self, pool: "TokenMatrix") -> Float32[np.ndarray, " texts"]:
        scores = torch.zeros(len(self))
        for row, ((left, left_weights), (right, right_weights)) in enumerate(
            zip(self._texts(), pool._texts(), strict=True)
        ):
            if len(left) and len(right):
                cosines = left @ right.T
                scores[row] = harmonic_mean(cosines.amax(1) @ left_weights, cosines.amax(0) @ right_weights)
        return scores.numpy()

    def _texts(self) -> list[tuple[Tensor, Tensor]]:
        lengths = self.offsets.diff().tolist()
        return list(zip(self.values.split(lengths), self._shares.split(lengths), strict=True))

    @cached_property
    def _shares(self) -> Float32[Tensor, " tokens"]:
        """Weights that sum to 1 in each text."""
        text_of_token = torch.repeat_interleave(torch.arange(len(self)), self.offsets.diff())
        totals = torch.zeros(len(self)).index_add(0, text_of_token, self.weights)
        return self.weights / totals.clamp_min(1e-12)[text_of_token]

    @cached_property
    def _groups(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Tokens [length, texts, dim], shares [length, texts] and rows [texts] of texts of equal length.

        The token dimension comes first, so that maxima over tokens work on whole rows.
        """
        lengths, groups = self.offsets.diff(), []
        for length in lengths.unique().tolist():
            if not length:
                continue
            for rows in (lengths == length).nonzero().squeeze(1).split(max(BLOCK_TOKENS // length, 1)):
                # [length, texts]: position of token t of each text
                positions = self.offsets[rows] + torch.arange(length).unsqueeze(1)
                groups.append((self.values[positions], self._shares[positions], rows))
        return groups


def harmonic_mean(left: Float[Tensor, "*n"], right: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Return 2 l r / (l + r); negative values count as 0."""
    left, right = left.clamp_min(0), right.clamp_min(0)
    return 2 * left * right / (left + right).clamp_min(1e-12)


def token_matrix(features: TextFeatures, config: BertscoreConfig) -> TokenMatrix:
    if features.states is None or features.state_rows is None:
        raise ValueError("bertscore needs token states, and these features have none")
    bank, rows = features.states, features.state_rows
    positions, offsets = ragged_positions(bank.begin[rows], bank.length[rows])
    values, special = bank.values.take(positions), torch.zeros(len(positions), dtype=torch.bool)
    special[offsets[:-1]] = special[offsets[1:] - 1] = True
    if config.center and not special.all():
        values = values - values[~special].mean(0)
    matrix = TokenMatrix(F.normalize(values, dim=1), (~special).float(), offsets)
    if config.special_tokens == "match":
        return matrix
    # New offsets: the number of tokens kept before each old offset.
    before = torch.cat([torch.zeros(1, dtype=torch.long), (~special).cumsum(0)])
    return TokenMatrix(matrix.values[~special], matrix.weights[~special], before[matrix.offsets])

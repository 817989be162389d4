"""The gradient of DREAM's loss, written out, for a batch in which the partner of each text is another text of it.

`DreamHead.terms` defines the loss. Autograd takes half as long again for the same gradient, up to rounding: it copies
partners, and adds up what each term contributes to the gradient of a matrix.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.heads.modules.linear_split import both
from disent_core.losses.similarity import norm
from disent_core.matmul import product
from disent_core.settings import Precision
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES


@torch.no_grad()
def terms_and_gradient(
    parameters: Mapping[str, Tensor], batch: Batch, weights: Mapping[str, float], precision: Precision
) -> tuple[Batch, dict[str, Tensor]]:
    """Return the five loss terms of a batch, and the gradient of their weighted sum by parameter.

    Args:
        parameters: of a `DreamHead`, by name.
        batch: pairs whose partners are drawn as `next_in_batch`.
        weights: factors of the terms by name; a term that is not named has factor 1.
        precision: number format of the products of both maps.
    """
    vectors, labels = batch["role_vectors"].flatten(0, 1), both(batch, "language")
    inputs = vectors.bfloat16() if precision == "bfloat16" else vectors
    meaning, language = (
        product(inputs, parameters[f"{part}.weight"], precision).add_(parameters[f"{part}.bias"])
        for part in ("meaning", "language")
    )
    error = (meaning + language).sub_(vectors)
    pairs = _Pairs(torch.stack([batch[f"{side}_next_in_batch"] for side in SIDES]))
    of_meaning, of_language = _Cosines(meaning, pairs), _Cosines(language, pairs)
    parallel, random, alike = of_meaning.values[0], of_meaning.values[1:], of_language.values[1:]
    log_shares = F.linear(language, parameters["identity.weight"], parameters["identity.bias"]).log_softmax(dim=-1)
    # A mean over each side, summed over both, is twice the mean over all rows.
    terms = {
        "reconstruction": 2 * torch.linalg.vector_norm(error).square() / error.numel(),
        "meaning_parallel": 1 - parallel.mean(),
        "meaning_random": 2 * random.clamp_min(0).mean(),
        "language_embedding": 2 * (1 - alike).mean(),
        "language_identification": 2 * F.nll_loss(log_shares, labels),
    }
    # Each term is a sum over rows, divided by the number of pairs.
    factors = {name: weights.get(name, 1.0) / len(parallel) for name in terms}
    to_parallel = torch.full_like(parallel, -factors["meaning_parallel"])
    to_random = factors["meaning_random"] * (random >= 0).to(random.dtype)
    to_alike = torch.full_like(alike, -factors["language_embedding"])
    to_error = 2 * factors["reconstruction"] / vectors.shape[1]
    to_meaning = of_meaning.gradient(torch.cat([to_parallel.unsqueeze(0), to_random])).add_(error, alpha=to_error)
    to_language = of_language.gradient(F.pad(to_alike, (0, 0, 1, 0))).add_(error, alpha=to_error)
    to_logits = log_shares.exp_()
    to_logits[torch.arange(len(labels), device=labels.device), labels] -= 1
    to_logits.mul_(factors["language_identification"])
    to_language.addmm_(to_logits, parameters["identity.weight"])
    return terms, {
        "meaning.weight": product(to_meaning.T, inputs.T, precision),
        "meaning.bias": to_meaning.sum(dim=0),
        "language.weight": product(to_language.T, inputs.T, precision),
        "language.bias": to_language.sum(dim=0),
        "identity.weight": to_logits.T @ language,
        "identity.bias": to_logits.sum(dim=0),
    }


class _Pairs:
    """Pairs of rows that are compared: source with target, source with its partner, target with its partner.

    Rows are those of all sources, then of all targets. `left` and `right` [3 pairs] number them. Each row is in three
    pairs: `numbers` [rows, 3] says in which, and `others` [rows, 3] with which row. `summed` are the row and those.
    """

    def __init__(self, partner: Int[Tensor, "2 pairs"]) -> None:
        rows = torch.arange(partner.numel(), device=partner.device).view_as(partner)
        self.left = rows[[0, 0, 1]].flatten()
        self.right = torch.cat([rows[1:], partner + rows[:, :1]]).flatten()
        by_row = torch.cat([self.left, self.right]).argsort(stable=True).view(-1, 3)
        self.numbers, self.others = by_row % len(self.left), torch.cat([self.right, self.left])[by_row]
        self.summed = torch.cat([rows.view(-1, 1), self.others], dim=1)


class _Cosines:
    """The cosines of those pairs, `values` [3, pairs]."""

    def __init__(self, rows: Float[Tensor, "rows dim"], pairs: _Pairs) -> None:
        self.rows, self.pairs, self.scales = rows, pairs, norm(rows).reciprocal_()
        left, right = pairs.left, pairs.right
        each = torch.arange(len(left), device=left.device)
        # Products of rows without copies of them: autograd computes the gradient of the weights of a sum so.
        dots = torch.ops.aten._embedding_bag_per_sample_weights_backward(rows, rows, right, each, left, 0, -1)
        self.values = (dots * self.scales[left] * self.scales[right]).view(3, -1)

    def gradient(self, to_values: Float[Tensor, "3 pairs"]) -> Float[Tensor, "rows dim"]:
        """Sum d cos(a, b) / d a = b / (|a| |b|) - a cos(a, b) / |a|^2 over the pairs of each row."""
        to_pairs, scales = to_values.flatten()[self.pairs.numbers], self.scales.unsqueeze(1)
        along = (to_pairs * self.values.flatten()[self.pairs.numbers]).sum(dim=1, keepdim=True)
        factors = torch.cat([-along * scales, to_pairs * self.scales[self.pairs.others]], dim=1) * scales
        return F.embedding_bag(self.pairs.summed, self.rows, per_sample_weights=factors, mode="sum")

"""Heads of two linear maps: DREAM, with the gradient of its losses; MEAT; and ORACLE, alone or over either."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from disent_core.losses import similarity
from disent_core.losses.similarity import norm
from disent_core.matmul import Linear, product
from disent_core.methods.dream import DreamConfig, MeatConfig
from disent_core.methods.modules.token_pooling import permuted
from disent_core.methods.oracle import EMBEDDINGS, VARIANTS, OracleConfig, Terms
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import ADVERSARIAL, Head, Parameters


class LinearHead(Head):
    """`meaning`, `language`: dim -> dim with bias, no activation. It has no loss terms."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.meaning = Linear(dim, dim)
        self.language = Linear(dim, dim)

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning` and `language`, each [texts, dim]."""
        return {"meaning": self.meaning(batch["vectors"]), "language": self.language(batch["vectors"])}

    def encode(self, batch: Batch) -> Batch:
        """Add `source_meaning_vectors`, `source_language_vectors`, and so on."""
        return batch | self.split(batch["role_vectors"], batch["role_vectors"])

    def split(self, for_meaning: Tensor, for_language: Tensor) -> Batch:
        """Apply each map in one product. Rows are sources, targets and, if there are any, the partners of both."""
        meaning, language = self.meaning(for_meaning).unbind(0), self.language(for_language).unbind(0)
        return {
            f"{role}_{name}_vectors": rows
            for name, by_role in (("meaning", meaning), ("language", language))
            for role, rows in zip(ROLES, by_role, strict=False)
        }

    def terms(self, encoded: Batch) -> Batch:
        return {}


ROLES = (*SIDES, *(f"{side}_partner" for side in SIDES))


def both(encoded: Batch, name: str) -> Tensor:
    """Return the values of sources followed by those of targets: [2 pairs, ...]."""
    return torch.cat([encoded[f"{side}_{name}"] for side in SIDES])


def sum_of_means(rows: Iterable[Float[Tensor, " _"]]) -> Float[Tensor, ""]:
    """Return the sum over sides of the mean of each side's values over the pairs."""
    return torch.stack([values.mean() for values in rows]).sum()


# --- DREAM and its gradient -------------------------------------------------------------------------------


class _Pairs:
    """Pairs of rows that are compared: source with target, source with its partner, target with its partner.

    Rows are all sources, then all targets. `left` and `right` [3 pairs] index them. Each row is in three
    pairs: `numbers` [rows, 3] has their indices, `others` [rows, 3] the other rows. `summed` has the row and those.
    """

    def __init__(self, partner: Int[Tensor, "2 pairs"]) -> None:
        rows = torch.arange(partner.numel(), device=partner.device).view_as(partner)
        self.left = rows[[0, 0, 1]].flatten()
        self.right = torch.cat([rows[1:], partner + rows[:, :1]]).flatten()
        # Each row occurs three times in left and right together; sorting by row groups its occurrences.
        by_row = torch.cat([self.left, self.right]).argsort(stable=True).view(-1, 3)
        self.numbers, self.others = by_row % len(self.left), torch.cat([self.right, self.left])[by_row]
        self.summed = torch.cat([rows.view(-1, 1), self.others], dim=1)


class _PairCosines:
    """The cosines of those pairs, `values` [3, pairs]."""

    def __init__(self, rows: Float[Tensor, "rows dim"], pairs: _Pairs) -> None:
        self.rows, self.pairs, self.scales = rows, pairs, norm(rows).reciprocal_()
        left, right = pairs.left, pairs.right
        each = torch.arange(len(left), device=left.device)
        # Products of rows without copying them, as autograd computes the gradient of a weighted sum's weights.
        dots = torch.ops.aten._embedding_bag_per_sample_weights_backward(rows, rows, right, each, left, 0, -1)
        self.values = (dots * self.scales[left] * self.scales[right]).view(3, -1)

    def gradient(self, to_values: Float[Tensor, "3 pairs"]) -> Float[Tensor, "rows dim"]:
        """Sum d cos(a, b) / d a = b / (|a| |b|) - a cos(a, b) / |a|^2 over the pairs of each row."""
        to_pairs, scales = to_values.flatten()[self.pairs.numbers], self.scales.unsqueeze(1)
        along = (to_pairs * self.values.flatten()[self.pairs.numbers]).sum(dim=1, keepdim=True)
        factors = torch.cat([-along * scales, to_pairs * self.scales[self.pairs.others]], dim=1) * scales
        return F.embedding_bag(self.pairs.summed, self.rows, per_sample_weights=factors, mode="sum")


class DreamHead(LinearHead):
    """`meaning`, `language`: dim -> dim with bias; `identity`: dim -> languages."""

    def __init__(self, dim: int, n_languages: int, config: DreamConfig) -> None:
        super().__init__(dim)
        self.config = config
        self.identity = nn.Linear(dim, n_languages)
        has_papers_terms = type(self) is DreamHead and not (config.without or config.language_repulsion)
        self.has_gradient = config.partner == "next_in_batch" and has_papers_terms

    @torch.no_grad()
    def terms_and_gradient(
        self, parameters: Parameters, batch: Batch, weights: Mapping[str, float]
    ) -> tuple[Batch, Parameters]:
        """Return the five loss terms of a batch, and the gradient of their weighted sum for each parameter.

        `terms` defines the loss, here for pairs whose partners are `next_in_batch`. Autograd takes 1.5 times as long
        for the same gradient, up to rounding: it copies partners, and accumulates each term's contribution to the
        gradient of a matrix. A term without a weight has factor 1.
        """
        precision = self.meaning.precision
        vectors, labels = batch["role_vectors"].flatten(0, 1), both(batch, "language")
        inputs = vectors.bfloat16() if precision == "bfloat16" else vectors
        meaning, language = (
            product(inputs, parameters[f"{part}.weight"], precision).add_(parameters[f"{part}.bias"])
            for part in ("meaning", "language")
        )
        error = (meaning + language).sub_(vectors)  # [2 pairs, dim], sources first, as all matrices here
        pairs = _Pairs(torch.stack([batch[f"{side}_next_in_batch"] for side in SIDES]))
        of_meaning, of_language = _PairCosines(meaning, pairs), _PairCosines(language, pairs)
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
        to_logits = log_shares.exp_()  # the gradient of cross-entropy: softmax minus one-hot label
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

    def encode(self, batch: Batch) -> Batch:
        """Add `source_meaning_vectors`, `target_partner_language_vectors`, and so on."""
        if self.config.partner == "random_batch_row":
            pairs, other_pairs, partners = batch["role_vectors"].split(2)
            return batch | self.split(torch.cat([pairs, other_pairs]), torch.cat([pairs, partners]))
        encoded = super().encode(batch)
        if self.config.partner == "next_in_batch":
            for side in SIDES:
                following = batch[f"{side}_next_in_batch"]
                before = following.argsort()  # the inverse of that permutation
                for name in ("meaning_vectors", "language_vectors"):
                    encoded[f"{side}_partner_{name}"] = permuted(encoded[f"{side}_{name}"], following, before)
        return encoded

    def terms(self, encoded: Batch) -> Batch:
        """Return the loss terms of Section 3, each a mean over the pairs, summed over both sides."""
        terms = {"reconstruction": sum_of_means(self._reconstruction(encoded, side) for side in SIDES)}
        if "meaning" not in self.config.without:
            pair, *partners = _cosines(encoded, "meaning")
            terms["meaning_parallel"] = 1 - pair.mean()
            terms["meaning_random"] = sum_of_means(cosine.clamp_min(0) for cosine in partners)
        if "language" not in self.config.without:
            pair, *partners = _cosines(encoded, "language")
            terms["language_embedding"] = sum_of_means(1 - cosine for cosine in partners)
            logits = self.identity(both(encoded, "language_vectors"))
            terms["language_identification"] = 2 * similarity.cross_entropy(logits, both(encoded, "language")).mean()
            if self.config.language_repulsion:
                terms["language_repulsion"] = pair.clamp_min(0).mean()
        return terms

    def _reconstruction(self, encoded: Batch, side: str) -> Tensor:
        total = encoded[f"{side}_meaning_vectors"] + encoded[f"{side}_language_vectors"]
        return similarity.squared_error(total, encoded[f"{side}_vectors"])


def _cosines(encoded: Batch, name: str) -> tuple[Tensor, ...]:
    """Return the cosines of source with target, and of each with its partner."""
    return similarity.cosines([encoded[f"{role}_{name}_vectors"] for role in ROLES], ((0, 1), (0, 2), (1, 3)))


# --- MEAT -------------------------------------------------------------------------------------------------


class MeatHead(LinearHead):
    """`meaning`, `language`: dim -> dim with bias; `discriminator`: dim -> languages, of the meaning."""

    def __init__(self, dim: int, n_languages: int, config: MeatConfig) -> None:
        super().__init__(dim)
        self.config = config
        self.discriminator = nn.Linear(dim, n_languages)
        self.adversary = "" if config.adversarial == "grad_reversal" else "discriminator"

    def terms(self, encoded: Batch) -> Batch:
        """Return the four loss terms, each a mean over the pairs, summed over both sides."""
        return {
            "reconstruction": sum_of_means(self._distance(encoded, side, side) for side in SIDES),
            "cross_reconstruction": sum_of_means(self._distance(encoded, *sides) for sides in (SIDES, SIDES[::-1])),
            "language_repulsion": similarity.hinged_cosine(
                encoded["source_language_vectors"], encoded["target_language_vectors"]
            ).mean(),
            ADVERSARIAL: 2 * self._adversarial(encoded).mean(),
        }

    def adversary_terms(self, encoded: Batch) -> Batch:
        return {"discriminator": 2 * self._identified(encoded, both(encoded, "meaning_vectors")).mean()}

    def _distance(self, encoded: Batch, side: str, whose: str) -> Tensor:
        """Compare a side's meaning plus the language of `whose` side with the sentence vector of `whose` side."""
        reconstructed = encoded[f"{side}_meaning_vectors"] + encoded[f"{whose}_language_vectors"]
        distance = similarity.cosine_distance if self.config.reconstruction == "cosine" else similarity.squared_error
        return distance(reconstructed, encoded[f"{whose}_vectors"])

    def _adversarial(self, encoded: Batch) -> Tensor:
        meaning = both(encoded, "meaning_vectors")
        if self.config.adversarial == "uniform_ce":
            return similarity.uniform_cross_entropy(self.discriminator(meaning))
        if self.config.adversarial == "negative_ce":
            return -self._identified(encoded, meaning)
        # The same values with the sign of their gradient reversed.
        return self._identified(encoded, 2 * meaning.detach() - meaning)

    def _identified(self, encoded: Batch, meaning: Tensor) -> Tensor:
        return similarity.cross_entropy(self.discriminator(meaning), both(encoded, "language"))


# --- ORACLE -----------------------------------------------------------------------------------------------


class OracleHead(Head):
    """A `base` head with the two regularisers."""

    def __init__(self, base: LinearHead, n_languages: int, config: OracleConfig) -> None:
        super().__init__()
        self.base, self.n_languages, self.config = base, n_languages, config
        self.adversary = f"base.{base.adversary}" if base.adversary else ""

    def embed(self, batch: Batch) -> Batch:
        return self.base.embed(batch)

    def encode(self, batch: Batch) -> Batch:
        return self.base.encode(batch)

    def adversary_terms(self, encoded: Batch) -> Batch:
        return self.base.adversary_terms(encoded)

    def terms(self, encoded: Batch) -> Batch:
        variant, terms = VARIANTS[self.config.variant], self.base.terms(encoded)
        if variant.keeps is not None:
            terms = {name: value for name, value in terms.items() if name in variant.keeps}
        if variant.intra and "intra_class" not in self.config.without:
            terms["intra_class"] = 2 - sum_of_means(self._similarity(encoded, side) for side in SIDES)
            if variant.parallel:
                translations = (_rows(encoded, side, "meaning_vectors") for side in SIDES)
                terms["intra_class"] = terms["intra_class"] + similarity.cosine_distance(*translations).mean()
        if (variant.leakage or variant.languages) and "inter_class" not in self.config.without:
            terms["inter_class"] = variant.share * self._inter_class(variant, encoded)
        return terms

    def _similarity(self, encoded: Batch, side: str) -> Tensor:
        """Return the mean cosine of each row's language embedding with those of its cluster."""
        rows, labels = (_rows(encoded, side, name) for name in ("language_vectors", "language"))
        if self.config.intra_class_scope == "batch":
            members = torch.ones_like(rows[:, :1])
        else:
            members = one_hot(labels, self.n_languages).to(rows.dtype)
        return similarity.mean_pairwise_cosine(rows, members, diagonal=self.config.intra_class_diagonal)

    def _inter_class(self, variant: Terms, encoded: Batch) -> Tensor:
        meaning, language = ([_rows(encoded, side, f"{name}_vectors") for side in SIDES] for name in EMBEDDINGS)
        penalties = []
        if variant.leakage:
            form = self.config.separation or variant.leakage
            cosines = (similarity.cosine(*pair) for pair in zip(meaning, language, strict=True))
            penalties += [similarity.orthogonality_penalty(cosine, form=form) for cosine in cosines]
        if variant.languages:
            form = self.config.separation or variant.languages
            penalties.append(similarity.orthogonality_penalty(similarity.cosine(*language), form=form))
        return sum_of_means(penalties)


def _rows(encoded: Batch, side: str, name: str) -> Tensor:
    """Return the values of a side's texts; with `half_batch`, include the batch's second half."""
    rows = encoded[f"{side}_{name}"]
    if f"{side}_second_half_language" not in encoded:
        return rows
    drawn = "second_half" if name == "language" else "partner"
    return torch.cat([rows, encoded[f"{side}_{drawn}_{name}"]])


def over(base: Callable[[int, int, Any], LinearHead]) -> Callable[[int, int, Any], OracleHead]:
    return lambda dim, n_languages, config: OracleHead(base(dim, n_languages, config), n_languages, config)


oracle_head = over(lambda dim, n_languages, config: LinearHead(dim))
dream_oracle_head = over(DreamHead)
meat_oracle_head = over(MeatHead)

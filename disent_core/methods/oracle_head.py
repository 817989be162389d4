"""The regularisers of ORACLE, over the head of another method or by themselves."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from disent_core.losses import similarity
from disent_core.methods.dream_head import DreamHead, LinearHead
from disent_core.methods.families.frozen import sum_of_means
from disent_core.methods.meat_head import MeatHead
from disent_core.methods.oracle import EMBEDDINGS, VARIANTS, OracleConfig, Terms
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head


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
        """Return the base's terms, `intra_class` and `inter_class`."""
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
    """Return values of a side's texts; with `half_batch` the pairs of the batch's second half are included."""
    rows = encoded[f"{side}_{name}"]
    if f"{side}_second_half_language" not in encoded:
        return rows
    drawn = "second_half" if name == "language" else "partner"
    return torch.cat([rows, encoded[f"{side}_{drawn}_{name}"]])


def over(base: Callable[[int, int, Any], LinearHead]) -> Callable[[int, int, Any], OracleHead]:
    """Return a builder of ORACLE over the heads that `base` builds."""
    return lambda dim, n_languages, config: OracleHead(base(dim, n_languages, config), n_languages, config)


oracle_head = over(lambda dim, n_languages, config: LinearHead(dim))
dream_oracle_head = over(DreamHead)
meat_oracle_head = over(MeatHead)

"""The head of the first generation of Facet: its units, and its losses."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.losses import similarity
from disent_core.losses.contrastive import in_batch_softmax
from disent_core.matmul import affine
from disent_core.methods.facet_first import FacetFirstConfig, draws
from disent_core.methods.families.mated_pairs import side_by_side
from disent_core.methods.modules.token_pooling import MaxPooledLinear, of_role, permuted, state_groups
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head

SOURCE, TARGET, SOURCE_SWAP, TARGET_SWAP = range(4)
"""Rows of a batch's texts in `ROLES`. A slot swap is the same utterance with other slot values."""
ROLES = (*SIDES, *(f"{side}_slot_swap" for side in SIDES))
SWAPS = ((SOURCE, SOURCE_SWAP), (TARGET, TARGET_SWAP))


class FacetFirstHead(Head):
    """`units`: token states -> template and residual units; `language`: sentence vector -> logits of the languages."""

    def __init__(self, dim: int, n_languages: int, config: FacetFirstConfig) -> None:
        super().__init__()
        self.config = config
        self.units = MaxPooledLinear(dim, config.template_units + config.residual_units)
        self.language = nn.Linear(dim, n_languages)

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning`, `template` and `residual`, of unit norm, and `language`, one-hot of the likeliest language.

        The one-hot vector carries at most log2(languages) bits, so nothing else can leak into it.
        """
        logits = self.language(batch["vectors"])
        language = F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
        return self._facets(batch) | {"language": language}

    def encode(self, batch: Batch) -> Batch:
        """Return the embeddings of all texts of the step: [roles, pairs, units]."""
        roles = ROLES if "slot_swap" in draws(self.config) else SIDES
        by_role = [self._facets(of_role(batch, role)) for role in roles]
        return batch | {name: torch.stack([embeddings[name] for embeddings in by_role]) for name in by_role[0]}

    def _facets(self, text: Batch) -> Batch:
        maxima = torch.cat([self.units(states, mask) for states, mask in state_groups(text)])
        maxima = permuted(maxima, text["place"], text["order"])
        template, residual = (
            F.normalize(units, dim=-1)
            for units in maxima.split([self.config.template_units, self.config.residual_units], dim=-1)
        )
        return side_by_side([template, residual])

    def terms(self, encoded: Batch) -> Batch:
        """Return the loss terms: each is a mean over both directions, `template_contrast` also over both sides."""
        labels = torch.cat([encoded[f"{side}_language"] for side in SIDES])
        logits = self.language(encoded["role_vectors"][: len(SIDES)].flatten(0, 1))
        terms = {
            "meaning_contrast": self.meaning_contrast(encoded),
            "language_identification": similarity.cross_entropy(logits, labels).mean(),
        }
        if "template_contrast" not in self.config.without:
            terms["template_contrast"] = self.template_contrast(encoded)
        return terms

    def meaning_contrast(self, encoded: Batch) -> Float[Tensor, ""]:
        """InfoNCE in both directions: find the translation among the other side's texts and their slot swaps."""
        meaning, texts = encoded["meaning"], encoded["role_texts"]
        copies = copies_of_pairs(texts[SOURCE], texts[TARGET])
        losses = []
        for query, answer, answer_swap in ((SOURCE, TARGET, TARGET_SWAP), (TARGET, SOURCE, SOURCE_SWAP)):
            candidates, excluded = meaning[answer], copies
            if "mate_negatives" not in self.config.without:
                candidates = torch.cat([candidates, meaning[answer_swap]])
                excluded = torch.cat([excluded, equal_texts(texts[answer], texts[answer_swap])], dim=1)
            losses.append(self._retrieval(meaning[query], candidates, excluded, self.config.temperature))
        return torch.stack(losses).mean()

    def template_contrast(self, encoded: Batch) -> Float[Tensor, ""]:
        """InfoNCE in both directions: find the utterance's slot swap among the slot swaps of the batch."""
        template, texts, temperature = encoded["template"], encoded["role_texts"], self.config.template_temperature
        losses = []
        for side, swap in SWAPS:
            copies = copies_of_pairs(texts[side], texts[swap])
            for query, answer in ((side, swap), (swap, side)):
                losses.append(self._retrieval(template[query], template[answer], copies, temperature))
        return torch.stack(losses).mean()

    def _retrieval(
        self, queries: Tensor, candidates: Tensor, excluded: Tensor, temperature: float
    ) -> Float[Tensor, ""]:
        cosines = affine(queries, candidates, candidates.new_zeros(len(candidates)), self.units.precision)
        return in_batch_softmax(cosines, excluded, temperature=temperature).mean()


def equal_texts(left: Int[Tensor, " left"], right: Int[Tensor, " right"]) -> Bool[Tensor, "left right"]:
    """Tell which texts of the left are equal to which of the right."""
    return left.unsqueeze(1) == right


def copies_of_pairs(left: Int[Tensor, " pairs"], right: Int[Tensor, " pairs"]) -> Bool[Tensor, "pairs pairs"]:
    """Tell which other pairs share a text with a pair: their other sides are correct too, so they are no negatives."""
    same_pair = torch.eye(len(left), dtype=torch.bool, device=left.device)
    return (equal_texts(left, left) | equal_texts(right, right)) & ~same_pair

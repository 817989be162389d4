"""The head of FMDA: attention, the maps of its embeddings, and its losses."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disent_core.losses import similarity
from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.modules.token_pooling import TemplateAttention, feed_forward, mean_states, of_role
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head

ROLES = (*SIDES, *(f"{side}_negative" for side in SIDES))
Part = Literal["template", "residual"]


class FmdaHead(Head):
    """Every map is dim -> dim with bias, except `identity`: dim -> languages."""

    reconstructed: tuple[Part, ...] = ("template", "residual")
    contrasted: tuple[str, ...] = ("template", "meaning")

    def __init__(self, dim: int, n_languages: int, config: FmdaConfig) -> None:
        super().__init__()
        self.config = config
        self.language = feed_forward(dim, config)
        self.attention = TemplateAttention(dim, config)
        self.meaning, self.utterance = feed_forward(dim, config), feed_forward(dim, config)
        self.identity = nn.Linear(dim, n_languages)
        if config.reconstruction_mlp == "all":
            self.template_target, self.residual_target = feed_forward(dim, config), feed_forward(dim, config)

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning`, `template`, `residual` and `language`, each [texts, dim]."""
        vectors = batch["vectors"].unsqueeze(0)
        content = self._content(vectors, [batch]) | {"language": self.language(vectors)}
        return {name: value.squeeze(0) for name, value in content.items()}

    def encode(self, batch: Batch) -> Batch:
        """Add `meaning`, `template`, `residual` of all texts, `language` of the pairs: [roles, pairs, dim]."""
        vectors = batch["role_vectors"]
        texts = [of_role(batch, role) for role in ROLES[: len(vectors)]]
        return batch | self._content(vectors, texts) | {"language": self.language(vectors[:2])}

    def _content(self, vectors: Tensor, texts: Sequence[Batch]) -> Batch:
        template, residual = self.attention(vectors, texts)
        return {"meaning": self.meaning(template + residual), "template": template, "residual": residual}

    def terms(self, encoded: Batch) -> Batch:
        """Return the paper's 14 terms, summed over both languages under eight names."""
        has = self.config.has
        terms = {"language_identification": self.identification(encoded)}
        if has("utterance_reconstruction"):
            terms["utterance_reconstruction"] = self.utterance_reconstruction(encoded)
        for part in self.reconstructed:
            if has(f"{part}_reconstruction"):
                terms[f"{part}_reconstruction"] = self.reconstruction(encoded, part)
                terms[f"{part}_cross_reconstruction"] = self.cross_reconstruction(encoded, part)
        if has("contrast"):
            terms |= {f"{part}_contrast": self.contrast(encoded[part]) for part in self.contrasted}
        return terms

    def identification(self, encoded: Batch) -> Float[Tensor, ""]:
        """L_lang: classify the language of the language embedding."""
        labels = torch.cat([encoded[f"{side}_language"] for side in SIDES])
        return 2 * similarity.cross_entropy(self.identity(encoded["language"].flatten(0, 1)), labels).mean()

    def utterance_reconstruction(self, encoded: Batch) -> Float[Tensor, ""]:
        """L_utt: language, template and residual give the sentence vector."""
        total = encoded["language"] + encoded["template"][:2] + encoded["residual"][:2]
        if self.config.reconstruction_mlp != "none":
            total = self.utterance(total)
        target = encoded["role_vectors"][:2]
        if self.config.reconstruction_target == "mean":
            target = torch.stack([mean_states(of_role(encoded, side)) for side in SIDES])
        return 2 * similarity.squared_error(total.flatten(0, 1), target.flatten(0, 1)).mean()

    def reconstruction(self, encoded: Batch, part: Part) -> Float[Tensor, ""]:
        """L_tp and L_rs: template (or residual) and language give the vector of the masked utterance."""
        return self._to_target(encoded, encoded[part][:2] + encoded["language"], part, SIDES)

    def cross_reconstruction(self, encoded: Batch, part: Part) -> Float[Tensor, ""]:
        """L_tp-CL and L_rs-CL: with the translation's language embedding they give the translation's vector."""
        return self._to_target(encoded, encoded[part][:2] + encoded["language"].flip(0), part, SIDES[::-1])

    def _to_target(self, encoded: Batch, total: Tensor, part: Part, sides: Sequence[str]) -> Tensor:
        if self.config.reconstruction_mlp == "all":
            total = self.template_target(total) if part == "template" else self.residual_target(total)
        target = torch.cat([encoded[f"{side}_{part}_vectors"] for side in sides])
        error = similarity.squared_error(total.flatten(0, 1), target)
        if part == "residual":
            # An utterance without slots has no residual target: weight 0.
            error = error * torch.cat([encoded[f"{side}_has_residual"] for side in sides])
        return 2 * error.mean()

    def contrast(self, rows: Float[Tensor, "roles pairs dim"]) -> Float[Tensor, ""]:
        """L_con: pull pairs together, push them from their negatives."""
        if self.config.contrast == "linear":
            return similarity.linear_contrast(*rows).mean()
        if self.config.contrast == "hinge":
            return similarity.hinged_contrast(*rows).mean()
        return similarity.info_nce_both_ways(*rows, temperature=self.config.temperature).mean()

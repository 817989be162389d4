"""The head of FMDA: attention, the maps of its embeddings, and its losses; and its training in two stages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from disent_core.losses import similarity
from disent_core.methods.families.frozen import FrozenHeadTrainer
from disent_core.methods.fmda import FmdaConfig, FmdaTwoStageConfig, TwoStageMethod
from disent_core.methods.modules.token_pooling import TemplateAttention, feed_forward, mean_states, of_role
from disent_core.storage.results import remove_result
from disent_core.training.data import Batch, TrainingData
from disent_core.training.epoch import Epoch, Fit
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head, best_parameters

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
        """Add `meaning`, `template` and `residual` of all texts, and `language` of the pairs: [roles, pairs, dim]."""
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
                terms[f"{part}_cross_reconstruction"] = self.reconstruction(encoded, part, crossed=True)
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

    def reconstruction(self, encoded: Batch, part: Part, *, crossed: bool = False) -> Float[Tensor, ""]:
        """L_tp and L_rs: template (or residual) and language give the vector of the masked utterance.

        `crossed`, L_tp-CL and L_rs-CL: with the translation's language embedding they give the translation's vector.
        """
        language, sides = (encoded["language"].flip(0), SIDES[::-1]) if crossed else (encoded["language"], SIDES)
        total = encoded[part][:2] + language
        if self.config.reconstruction_mlp == "all":
            total = self.template_target(total) if part == "template" else self.residual_target(total)
        target = torch.cat([encoded[f"{side}_{part}_vectors"] for side in sides])
        error = similarity.squared_error(total.flatten(0, 1), target)
        if part == "residual":
            # An utterance without slots has no residual target: weight 0.
            error = error * torch.cat([encoded[f"{side}_has_residual"] for side in sides])
        return 2 * error.mean()

    def contrast(self, rows: Float[Tensor, "roles pairs dim"]) -> Float[Tensor, ""]:
        """L_con: pull pairs together and push them away from their negatives."""
        if self.config.contrast == "linear":
            return similarity.linear_contrast(*rows).mean()
        if self.config.contrast == "hinge":
            return similarity.hinged_contrast(*rows).mean()
        return similarity.info_nce_both_ways(*rows, temperature=self.config.temperature).mean()


# --- two stages -------------------------------------------------------------------------------------------

STAGE_1 = "stage_1_"
"""Prefix of stage 1's loss terms; stage 2 uses FMDA's names."""
WATCHED = ("total", "accuracy_at_1")
"""Terms that early stopping monitors, in either stage."""


class TemplateStage(FmdaHead):
    """Stage 1, on template pairs: L_lang, L_tp within a language and L_con of the templates."""

    monitored = "template"

    def encode(self, batch: Batch) -> Batch:
        vectors = batch["role_vectors"]
        template, _ = self.attention(vectors, [of_role(batch, role) for role in ROLES[: len(vectors)]])
        pairs = vectors[:2]
        language = self.language(pairs) if self.config.stage1_train_language else torch.zeros_like(pairs)
        return batch | {"template": template, "language": language}

    def terms(self, encoded: Batch) -> Batch:
        terms: Batch = {}
        if self.config.stage1_train_language:
            terms["language_identification"] = self.identification(encoded)
        if self.config.has("template_reconstruction"):
            terms["template_reconstruction"] = self.reconstruction(encoded, "template")
        if self.config.has("contrast"):
            terms["template_contrast"] = self.contrast(encoded["template"])
        return terms


class MeaningStage(FmdaHead):
    """Stage 2, on parallel pairs: L_lang, L_utt, L_rs, L_rs-CL and L_con of the meanings."""

    reconstructed = ("residual",)
    contrasted = ("meaning",)

    def __init__(self, dim: int, n_languages: int, config: FmdaTwoStageConfig) -> None:
        super().__init__(dim, n_languages, config)
        for name in config.stage2_freeze:
            (self.language if name == "language" else getattr(self.attention, name)).requires_grad_(False)


class TwoStageTrainer(FrozenHeadTrainer):
    method: TwoStageMethod

    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Train every seed in stage 1, then continue from each seed's best epoch in stage 2."""
        first_run, epochs, steps = replace(run, checkpoint=_first_checkpoint(run.checkpoint)), 0, 0
        templates, first = replace(data, splits=data.template_pairs), FrozenHeadTrainer(self.method.first)
        for epoch in first.fit(templates, _of_stage(config, is_first=True), first_run):
            epochs, steps = epoch.number, epoch.steps
            terms = {
                split: {name if name in WATCHED else f"{STAGE_1}{name}": values for name, values in of_split.items()}
                for split, of_split in epoch.terms.items()
            }
            yield replace(epoch, terms=terms)
        best = best_parameters(first_run.checkpoint)
        for epoch in self.fit_from(best, data, _of_stage(config, is_first=False), run):
            yield replace(epoch, number=epochs + epoch.number, steps=steps + epoch.steps)

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        content = super().save(checkpoint, path, description)
        remove_result(_first_checkpoint(checkpoint))
        return content


def _first_checkpoint(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{STAGE_1}{checkpoint.name}")


def _of_stage(config: FmdaTwoStageConfig, *, is_first: bool) -> FmdaTwoStageConfig:
    """Return the config with only one stage's loss weights, under the names of that stage's terms."""
    weights = {name: value for name, value in config.weights.items() if name.startswith(STAGE_1) == is_first}
    return replace(config, weights={name.removeprefix(STAGE_1): value for name, value in weights.items()})

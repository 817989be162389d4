"""The heads of the two stages of FMDA, and the training of one after the other."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from disent_core.methods.families.frozen import FrozenHeadTrainer
from disent_core.methods.fmda_head import ROLES, FmdaHead
from disent_core.methods.fmda_two_stage import FmdaTwoStageConfig, TwoStageMethod
from disent_core.methods.modules.token_pooling import of_role
from disent_core.storage.results import remove_result
from disent_core.training.data import Batch, TrainingData
from disent_core.training.epoch import Epoch, Fit
from disent_core.training.stacked import best_parameters

STAGE_1 = "stage_1_"
"""Prefix of the names of stage 1's loss terms; those of stage 2 are FMDA's."""
WATCHED = ("total", "accuracy_at_1")
"""Terms that early stopping monitors, in either stage."""


class TemplateStage(FmdaHead):
    """Stage 1, on template pairs: L_lang, L_tp within a language and L_con of the templates."""

    monitored = "template"

    def encode(self, batch: Batch) -> Batch:
        """Add `template` of all texts of the step and `language` of the pairs."""
        vectors = batch["role_vectors"]
        template, _ = self.attention(vectors, [of_role(batch, role) for role in ROLES[: len(vectors)]])
        return batch | {"template": template, "language": self._language(vectors[:2])}

    def _language(self, vectors: Tensor) -> Tensor:
        return self.language(vectors) if self.config.stage1_train_language else torch.zeros_like(vectors)

    def terms(self, encoded: Batch) -> Batch:
        """Return three of FMDA's terms; both utterances of a pair are in one language."""
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
    """The trainer of FMDA in two stages."""

    method: TwoStageMethod

    def fit(self, data: TrainingData, config: Any, run: Fit) -> Iterator[Epoch]:
        """Train every seed in stage 1, then continue from each seed's best epoch in stage 2."""
        first_checkpoint, epochs, steps = _first_checkpoint(run.checkpoint), 0, 0
        templates, stage_config = replace(data, splits=data.template_pairs), _of_stage(config, is_first=True)
        first_run = replace(run, checkpoint=first_checkpoint)
        first = FrozenHeadTrainer(self.method.first).fit(templates, stage_config, first_run)
        for epoch in first:
            epochs, steps = epoch.number, epoch.steps
            yield replace(epoch, terms={split: _named(terms) for split, terms in epoch.terms.items()})
        best, stage_config = best_parameters(first_checkpoint), _of_stage(config, is_first=False)
        second = self.fit_from(best, data, stage_config, run)
        for epoch in second:
            yield replace(epoch, number=epochs + epoch.number, steps=steps + epoch.steps)

    def save(self, checkpoint: Path, path: Path, description: Mapping[str, object]) -> str:
        """Write the best weights of stage 2, then delete the stage-1 checkpoint."""
        content = super().save(checkpoint, path, description)
        remove_result(_first_checkpoint(checkpoint))
        return content


def _first_checkpoint(checkpoint: Path) -> Path:
    """Return the path of stage 1's checkpoint, beside stage 2's."""
    return checkpoint.with_name(f"{STAGE_1}{checkpoint.name}")


def _of_stage(config: FmdaTwoStageConfig, *, is_first: bool) -> FmdaTwoStageConfig:
    """Return the config with only one stage's loss weights, under the names of its terms."""
    weights = {name: value for name, value in config.weights.items() if name.startswith(STAGE_1) == is_first}
    return replace(config, weights={name.removeprefix(STAGE_1): value for name, value in weights.items()})


def _named(terms: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    return {name if name in WATCHED else f"{STAGE_1}{name}": values for name, values in terms.items()}

"""The model of an encoder, cut off after the layer that is read, as a folder of transformers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disent_core.encoders.checkpoint import load_model, load_tokeniser
from disent_core.encoders.configured import describe_config
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig, model_folder
from disent_core.encoders.layers import block_list, run_model
from disent_core.encoders.transformer import HuggingFaceEncoder
from disent_core.export.routes import Route, States, pooling_steps, refusal
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.families.seed_by_seed import FineTuned

_IDS = [[0, 1, 2, 3, 4, 3, 2, 1], [4, 3, 2, 1, 0, 0, 0, 0]]
_VISIBLE = [[1] * 8, [1] * 4 + [0] * 4]


@dataclass(frozen=True)
class ExportedEncoder:
    """A model whose last states are those that the head reads, and the steps to its sentence vector.

    `layers` are those of the uncut model.
    """

    model: Any
    tokeniser: Any
    config: HuggingFaceConfig
    pooled: Route
    layers: tuple[int, ...]

    def save(self, folder: Path) -> None:
        """Write model and tokeniser in the format of transformers."""
        self.model.save_pretrained(folder)
        self.tokeniser.save_pretrained(folder)

    def described(self) -> dict[str, Any]:
        """Return settings by which disent reads the model from the folder that they lie in, cut as it is there."""
        layer = -1 if len(self.layers) == 1 else list(self.layers)
        here = replace(self.config, path=".", id=None, revision=None)
        return describe_config(here, Path()) | {"path": ".", "layer": layer}


def exact_encoder(head: SavedHead) -> HuggingFaceEncoder:
    """Return the head's encoder with products and results in float32 on the CPU, however results are stored."""
    config = _model_config(head)
    exact = replace(config, vector_dtype="float32", states_dtype="float32", precision="float32", products="torch")
    return HuggingFaceEncoder(exact, model_folder(config.path, config.id, config.revision), "cpu")


def exported_encoder(head: SavedHead, seed: int | None) -> ExportedEncoder:
    """Return the encoder to export: the frozen one, or the one that the head has fine-tuned."""
    config, trained = _model_config(head), head.trained
    folder = model_folder(config.path, config.id, config.revision)
    tuned = trained.with_weights_of(seed) if isinstance(trained, FineTuned) else None
    model = tuned.model.eval() if isinstance(tuned, TunableEncoder) else load_model(folder, pooling=config.pooling)
    steps = pooling_steps(config.pooling, model)
    if steps is None:
        raise refusal(head, f"sentence-transformers has no module for the pooler of a {type(model).__name__}")
    return _cut_encoder(head, model, steps)


def exported_tagger_encoder(head: SavedHead, model: Any) -> ExportedEncoder:
    """Return the encoder that a tagger has fine-tuned; no sentence vector is read of it."""
    return _cut_encoder(head, model, ())


def _cut_encoder(head: SavedHead, model: Any, steps: Route) -> ExportedEncoder:
    config = _model_config(head)
    count = model.config.num_hidden_layers + 1
    layers = tuple(layer % count for layer in np.atleast_1d(config.layer).tolist())
    if not _cut(model, layers):
        reason = (
            f"a {type(model).__name__} changes its last states once more, so layer {max(layers)} can't become the last"
        )
        raise refusal(head, reason)
    if len(layers) > 1:
        steps = (States(layers, model.config.hidden_size * len(layers)), *steps)
    tokeniser = load_tokeniser(model_folder(config.path, config.id, config.revision))
    return ExportedEncoder(model, tokeniser, config, steps, layers)


def _model_config(head: SavedHead) -> HuggingFaceConfig:
    config = head.source.saved_config
    if not isinstance(config, HuggingFaceConfig):
        raise refusal(head, "its vectors were imported, so there is no encoder")
    return config


@torch.no_grad()
def _cut(model: Any, layers: Sequence[int]) -> bool:
    """Remove the blocks above the highest layer; False if the states of what remains are not those of the layers."""
    ids, visible = torch.tensor(_IDS), torch.tensor(_VISIBLE, dtype=torch.bool)
    wanted, _ = run_model(model, ids, visible, layer=tuple(layers))
    if max(layers) < model.config.num_hidden_layers:
        blocks = block_list(model)
        if blocks is None:
            return False
        del blocks[max(layers) :]
        model.config.num_hidden_layers = max(layers)
    model.config.output_hidden_states = len(layers) > 1
    output = model(input_ids=ids, attention_mask=visible.long())
    states = [output.hidden_states[layer] for layer in layers] if len(layers) > 1 else [output.last_hidden_state]
    return torch.equal(torch.cat(states, dim=-1)[visible], wanted[visible])

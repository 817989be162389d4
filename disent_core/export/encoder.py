"""Cut the model of an encoder off after the layer that is read, for a folder of transformers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disent_core.encoders import describe_config
from disent_core.encoders.checkpoint import load_model, load_tokeniser
from disent_core.encoders.fine_tunable import TunableEncoder
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig, Precision, model_folder
from disent_core.encoders.layers import block_list, run_model
from disent_core.encoders.transformer import HuggingFaceEncoder
from disent_core.export.routes import Route, pooling_steps, refusal, shipped
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.families.seed_by_seed import FineTuned

_IDS = [[0, 1, 2, 3, 4, 3, 2, 1], [4, 3, 2, 1, 0, 0, 0, 0]]
_VISIBLE = [[1] * 8, [1] * 4 + [0] * 4]


@dataclass(frozen=True)
class ExportedEncoder:
    """A model whose last states are those that the head reads, with the steps to its sentence vector.

    `layers` are those of the uncut model. A head that reads words alone has no model and no tokeniser.
    """

    model: Any
    tokeniser: Any
    config: Any
    layers: tuple[int, ...]
    pooled: Route = ()

    def described(self) -> dict[str, Any] | None:
        """Return the settings with which disent reads the model, already cut, from the folder they are stored in."""
        if self.model is None:
            return None
        layer = -1 if len(self.layers) == 1 else list(self.layers)
        here = replace(self.config, path=".", id=None, revision=None)
        return describe_config(here, Path()) | {"path": ".", "layer": layer}


def exact_encoder(head: SavedHead, precision: Precision = "float32") -> HuggingFaceEncoder:
    """Return the head's encoder on the CPU, with products in `precision` and results in float32."""
    config, folder = _model_config(head)
    exact = replace(config, vector_dtype="float32", states_dtype="float32", precision=precision, products="torch")
    return HuggingFaceEncoder(exact, folder, "cpu")


def exported_encoder(head: SavedHead, seed: int | None) -> ExportedEncoder:
    """Return the encoder to export: the frozen one, or the one that the head fine-tuned."""
    if not head.method.reads_encoder:
        return ExportedEncoder(None, None, head.source.config, ())
    (config, folder), trained = _model_config(head), head.trained
    tuned = trained.with_weights_of(seed) if isinstance(trained, FineTuned) else None
    model = tuned.model.eval() if isinstance(tuned, TunableEncoder) else load_model(folder, pooling=config.pooling)
    width = model.config.hidden_size * np.size(config.layer)
    steps = pooling_steps(config.pooling, model, width)
    if steps is None:
        raise refusal(head, f"sentence-transformers has no module for the pooler of a {type(model).__name__}")
    encoder = cut_encoder(head, model)
    states = (shipped().LayerStates(list(encoder.layers), width),) if len(encoder.layers) > 1 else ()
    return replace(encoder, pooled=states + steps)


def cut_encoder(head: SavedHead, model: Any) -> ExportedEncoder:
    """Return the encoder of a head, its model cut off after the layer that the head reads."""
    config, folder = _model_config(head)
    count = model.config.num_hidden_layers + 1
    layers = tuple(layer % count for layer in np.atleast_1d(config.layer).tolist())
    if not _cut(model, layers):
        name = type(model).__name__
        raise refusal(head, f"a {name} changes its last states once more, so layer {max(layers)} can't become the last")
    return ExportedEncoder(model, load_tokeniser(folder), config, layers)


def _model_config(head: SavedHead) -> tuple[HuggingFaceConfig, Path]:
    config = head.source.saved_config
    if not isinstance(config, HuggingFaceConfig):
        raise refusal(head, "its vectors were imported, so there is no encoder")
    if config.prefix:
        raise refusal(head, f"its encoder puts {config.prefix!r} before every text, which an exported folder would not")
    return config, model_folder(config.path, config.id, config.revision)


@torch.no_grad()
def _cut(model: Any, layers: Sequence[int]) -> bool:
    """Remove the blocks above the highest layer; return False if the remaining states are not those of the layers."""
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

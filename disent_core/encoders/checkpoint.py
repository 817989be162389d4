"""Load and save the model and tokeniser of a checkpoint, and reject missing weights."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.encoders.contract import Pooling
from disent_core.encoders.kinds.huggingface import DENSE, is_dense
from disent_core.encoders.layers import use_attention
from disent_core.errors import EncoderError, commas, is_failure, located, quoted, reason
from disent_core.storage.results import write_folder
from disent_core.text import parsed_json, settings_within


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and load report; this module makes the checks of that report."""
    from transformers.utils import logging

    verbosity, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bar:
            logging.enable_progress_bar()


_MOST_LAYERS = 1_000
_FEW_NUMBERS = 1 << 24  # 64 MB


def _check_config(folder: Path) -> None:
    """Reject a config that would load from elsewhere, run code, or be built for hours before weights are read."""
    path = folder / "config.json"
    try:
        config = parsed_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # transformers reports the problem
    for key, value in settings_within(config):
        if "attn_implementation" in key and "/" in str(value):  # a kernel of the hub
            raise EncoderError(located(path, None, f"{key} names code, {quoted(value)}", "Remove it"))
        if ("layer" in key or "group" in key) and isinstance(value, int) and value > _MOST_LAYERS:
            raise EncoderError(located(path, None, f"{key} is {quoted(value)}", "Check that this is a whole model"))


def _require_weights(folder: Path) -> None:
    """Reject a config.json with far more weights than the files have: transformers would allocate the missing ones.

    The model is built without memory. The files may lack a pooler, tied weights and buffers.
    """
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModel.from_config(config, trust_remote_code=False)
    wanted = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    stored = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            stored += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())
    if wanted > 2 * stored + _FEW_NUMBERS:
        problem = f"config.json asks for {wanted:,} values, but the weights have {stored:,}"
        raise EncoderError(located(folder, None, problem, "Put config.json and all weight files of one model there"))


def load_model(folder: Path, *, pooling: Pooling) -> Any:
    """Load the model in evaluation mode, with every weight from the checkpoint and a pooler only if `pooling` uses it.

    With `cls_dense_norm` its pooler is the dense layer of sentence-transformers. transformers itself would fill in
    random weights for missing ones, as for a RoBERTa pooler.
    """
    from transformers import AutoModel

    _check_config(folder)
    try:
        with quiet_transformers():
            _require_weights(folder)
            model, info = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except EncoderError:
        raise
    except Exception as error:
        remedy = "Check that the folder holds a complete model"
        raise EncoderError(located(folder, None, f"this model can't be loaded ({reason(error)})", remedy)) from error
    missing = sorted(info["missing_keys"])
    if pooling == "pooler" and (getattr(model, "pooler", None) is None or any("pooler" in key for key in missing)):
        remedy = "Set pooling to 'cls' or 'mean'"
        raise EncoderError(located(folder, None, "pooling is 'pooler', but the checkpoint has no pooler", remedy))
    if absent := [key for key in missing if "pooler" not in key]:
        remedy = "They would be random. Use a complete checkpoint"
        raise EncoderError(located(folder, None, f"{len(absent)} missing weights, e.g. {commas(absent[:3])}", remedy))
    if pooling != "pooler" and hasattr(model, "pooler"):
        model.pooler = load_dense(folder, model.config.hidden_size) if is_dense(pooling) else None
    elif is_dense(pooling):
        problem = f"pooling is {pooling!r}, but a {type(model).__name__} has no place for the dense layer"
        raise EncoderError(located(folder, None, problem, "Set pooling to 'cls' or 'mean'"))
    use_attention(model)
    return model.eval().requires_grad_(False)


def round_weights(model: nn.Module, device: str) -> None:
    """Round the weights to bfloat16, in place.

    Buffers, such as the frequencies of rotary positions, are unchanged. So are layer norms on a CPU, where this costs
    no time and makes the angle to float32 vectors a fifth smaller.
    """
    for part in model.modules():
        if type(part) is not nn.LayerNorm or device != "cpu":
            for weight in part.parameters(recurse=False):
                weight.data = weight.data.bfloat16()


class DensePooler(nn.Module):
    """[CLS], dense layer, tanh, unit norm: the pooling of LaBSE in sentence-transformers."""

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)

    def forward(self, hidden: Float[Tensor, "rows length dim"]) -> Float[Tensor, "rows dim"]:
        return F.normalize(torch.tanh(self.linear(hidden[:, 0])).float(), dim=-1)


def load_dense(folder: Path, width: int) -> DensePooler:
    """Load the layer in `2_Dense` of a folder saved by sentence-transformers."""
    dense_folder = folder / DENSE
    try:
        settings = json.loads((dense_folder / "config.json").read_text(encoding="utf-8"))
        weights = load_file(dense_folder / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        remedy = "It needs config.json and model.safetensors; save the model again with sentence-transformers"
        raise EncoderError(
            located(dense_folder, None, f"pooling is 'cls_dense_norm', but its layer can't be read ({error})", remedy)
        ) from error
    activation = str(settings.get("activation_function")).rsplit(".", 1)[-1]
    shape = tuple(weights["linear.weight"].shape) if "linear.weight" in weights else None
    if activation != "Tanh" or shape != (width, width):
        problem = f"the dense layer has shape {shape} with {activation}, not {(width, width)} with Tanh"
        raise EncoderError(located(dense_folder, None, problem, "Set pooling to 'cls' or 'mean'"))
    pooler = DensePooler(width, bias="linear.bias" in weights)
    pooler.load_state_dict(weights)
    return pooler


def save_dense(pooler: DensePooler, folder: Path) -> None:
    """Write a layer that `load_dense` reads."""
    dense_folder = folder / DENSE
    dense_folder.mkdir()
    weights = {name: value.detach().contiguous() for name, value in pooler.state_dict().items()}
    save_file(weights, dense_folder / "model.safetensors")
    settings = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (dense_folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")


def save_model(model: Any, tokeniser: Any, folder: Path, records: Mapping[str, str]) -> None:
    """Write a transformers model, its tokeniser and text files (`records`, by name), completely or not at all."""
    with quiet_transformers(), write_folder(folder) as beside:
        model.save_pretrained(beside)
        tokeniser.save_pretrained(beside)
        for name, content in records.items():
            (beside / name).write_text(content, encoding="utf-8")


def load_tokeniser(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokeniser = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except BaseException as error:
        if not is_failure(error):
            raise
        remedy = "Put the model's tokeniser files beside its weights"
        raise EncoderError(located(folder, None, f"no tokeniser can be loaded ({reason(error)})", remedy)) from error
    if not isinstance(tokeniser.model_max_length, int | float):
        problem = f"model_max_length is {quoted(tokeniser.model_max_length)}"
        raise EncoderError(located(folder, None, problem, "Correct tokenizer_config.json"))
    if not tokeniser.is_fast:
        remedy = "Save it as tokenizer.json"
        raise EncoderError(located(folder, None, "this model has no fast tokeniser", remedy))
    return tokeniser


def longest_input(model: Any, tokeniser: Any) -> int:
    """Return the largest number of tokens that have positions. RoBERTa's positions start after the padding position."""
    positions = getattr(model.config, "max_position_embeddings", None) or tokeniser.model_max_length
    first = getattr(getattr(getattr(model, "embeddings", None), "position_embeddings", None), "padding_idx", None)
    return min(tokeniser.model_max_length, positions - (0 if first is None else first + 1))


def check_length(model: Any, tokeniser: Any, max_length: int, folder: Path) -> None:
    """Reject a `max_length` greater than the model's number of positions."""
    if (longest := longest_input(model, tokeniser)) < max_length:
        problem = f"max_length is {max_length}, but the model reads at most {longest} tokens"
        raise EncoderError(located(folder, None, problem, "Lower max_length"))

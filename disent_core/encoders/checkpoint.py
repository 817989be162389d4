"""Read checkpoints from disk: find the folder, hash its files, load model and tokeniser, and refuse missing weights."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from disent_core.encoders.contract import Pooling
from disent_core.errors import EncoderError, located
from disent_core.storage.atomic import storage_errors

DENSE = "2_Dense"
"""Folder in which sentence-transformers saves the dense layer after the pooling, the third module of a model."""
PACKAGE_PREFIX = "package:"
_MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
_NOT_READ = {"modules.json", "data_config.json", "training_args.json", "config_sentence_transformers.json"}

# --- files ------------------------------------------------------------------------------------------------


def model_folder(path: str | None, identifier: str | None, revision: str | None) -> Path:
    """Return the folder of the model at `path` or, without one, of that `identifier` on the hub, downloaded once.

    Raises:
        EncoderError: if there is no such folder, package or model, or it has no safetensors weights.
    """
    folder = _from_path(path) if path else _from_hub(identifier or "", revision)
    if not folder.is_dir():
        raise EncoderError(located(folder, None, "there is no such folder", "Correct the encoder's path"))
    if not any(folder.glob("*.safetensors")):
        remedy = "Save the model with save_pretrained(..., safe_serialization=True); pickled weights are not read"
        raise EncoderError(located(folder, None, "there are no *.safetensors weights here", remedy))
    return folder


def _from_path(path: str) -> Path:
    if not path.startswith(PACKAGE_PREFIX):
        return Path(path)
    package, _, inside = path.removeprefix(PACKAGE_PREFIX).partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise EncoderError(f"{path!r}: package {package!r} is not installed. Install it, or use another model")
    if Path(inside).is_absolute() or ".." in Path(inside).parts:
        raise EncoderError(f"{path!r} leads out of package {package!r}. Name a folder inside it, package:NAME/folder")
    return Path(next(iter(spec.submodule_search_locations)), inside)


def _from_hub(identifier: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    model = f"{identifier!r} at revision {revision or 'main'!r}"
    patterns = [*_MODEL_FILES, *(f"{DENSE}/{pattern}" for pattern in _MODEL_FILES)]
    other_folders = ["[!2]*/*", "2[!_]*/*"]  # a star matches slashes too
    try:
        return Path(
            snapshot_download(identifier, revision=revision, allow_patterns=patterns, ignore_patterns=other_folders)
        )
    except LocalEntryNotFoundError as error:
        remedy = "Go online once, or put a copy in a folder and set path instead of id"
        raise EncoderError(f"model {model} is not in the local cache and the hub is out of reach. {remedy}") from error
    except (RepositoryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        remedy = "Check id and revision; a gated model needs an accepted licence and a login"
        raise EncoderError(f"model {model} can't be read from the hub ({error}). {remedy}") from error


def files_fingerprint(folder: Path, pooling: Pooling = "cls") -> dict[str, str]:
    """Return the SHA-256 of every file from which weights, configuration or tokeniser are read."""
    patterns = [*_MODEL_FILES, f"{DENSE}/*.json", f"{DENSE}/*.safetensors"][: None if _is_dense(pooling) else -2]
    files = {file for pattern in patterns for file in folder.glob(pattern) if file.name not in _NOT_READ}
    hashes = {}
    for file in sorted(files):
        with storage_errors(file), file.open("rb") as stream:
            hashes[file.relative_to(folder).as_posix()] = hashlib.file_digest(stream, "sha256").hexdigest()
    return hashes


# --- model ------------------------------------------------------------------------------------------------


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and load report; this module checks what the report would say."""
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


def load_model(folder: Path, *, pooling: Pooling) -> Any:
    """Load the model in evaluation mode, with every weight from the checkpoint and a pooler only if `pooling` uses it.

    With `cls_dense_norm` its pooler is the dense layer of sentence-transformers. transformers itself would fill in
    random weights for missing ones, as for a RoBERTa pooler.

    Raises:
        EncoderError: if it can't be loaded, or a weight that is needed is not in the checkpoint.
    """
    from transformers import AutoModel

    try:
        with quiet_transformers():
            model, info = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        remedy = "Check that the folder holds a complete model"
        raise EncoderError(located(folder, None, f"this model can't be loaded ({error})", remedy)) from error
    missing = sorted(info["missing_keys"])
    if pooling == "pooler" and (getattr(model, "pooler", None) is None or any("pooler" in key for key in missing)):
        remedy = "Set pooling to 'cls' or 'mean'"
        raise EncoderError(located(folder, None, "pooling is 'pooler' and the checkpoint has none", remedy))
    if absent := [key for key in missing if "pooler" not in key]:
        remedy = "They would be random. Use a complete checkpoint"
        raise EncoderError(located(folder, None, f"{len(absent)} weights are missing, e.g. {absent[:3]}", remedy))
    if pooling != "pooler" and hasattr(model, "pooler"):
        model.pooler = load_dense(folder, model.config.hidden_size) if _is_dense(pooling) else None
    elif _is_dense(pooling):
        problem = f"pooling is {pooling!r}, and a {type(model).__name__} has no place for the dense layer"
        raise EncoderError(located(folder, None, problem, "Set pooling to 'cls' or 'mean'"))
    return model.eval().requires_grad_(False)


def _is_dense(pooling: Pooling) -> bool:
    return pooling == "cls_dense_norm"


class DensePooler(nn.Module):
    """[CLS], dense layer, tanh, unit norm: the pooling of LaBSE in sentence-transformers."""

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)

    def forward(self, hidden: Float[Tensor, "rows length dim"]) -> Float[Tensor, "rows dim"]:
        """Return one vector of norm 1 a text."""
        return F.normalize(torch.tanh(self.linear(hidden[:, 0])).float(), dim=-1)


def load_dense(folder: Path, width: int) -> DensePooler:
    """Load the layer in `2_Dense` of a folder that sentence-transformers has saved.

    Raises:
        EncoderError: if it is missing, not in safetensors, of another width or without tanh.
    """
    dense_folder = folder / DENSE
    try:
        settings = json.loads((dense_folder / "config.json").read_text(encoding="utf-8"))
        weights = load_file(dense_folder / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        remedy = "It needs config.json and model.safetensors; save the model anew with sentence-transformers"
        raise EncoderError(located(dense_folder, None, f"pooling is 'cls_dense_norm': {error}", remedy)) from error
    activation = str(settings.get("activation_function")).rsplit(".", 1)[-1]
    shape = tuple(weights["linear.weight"].shape) if "linear.weight" in weights else None
    if activation != "Tanh" or shape != (width, width):
        problem = f"a dense layer of shape {shape} with {activation}, not {(width, width)} with Tanh"
        raise EncoderError(located(dense_folder, None, problem, "Set pooling to 'cls' or 'mean'"))
    pooler = DensePooler(width, bias="linear.bias" in weights)
    pooler.load_state_dict(weights)
    return pooler


def load_tokeniser(folder: Path) -> Any:
    """Load the model's fast tokeniser.

    Raises:
        EncoderError: if there is none.
    """
    from transformers import AutoTokenizer

    try:
        tokeniser = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        remedy = "Put the model's tokeniser files beside its weights"
        raise EncoderError(located(folder, None, f"no tokeniser can be loaded ({error})", remedy)) from error
    if not tokeniser.is_fast:
        remedy = "Save it as tokenizer.json"
        raise EncoderError(located(folder, None, "this model has no fast tokeniser", remedy))
    return tokeniser


def longest_input(model: Any, tokeniser: Any) -> int:
    """Return the largest number of tokens with positions. RoBERTa's positions start after that of padding."""
    positions = getattr(model.config, "max_position_embeddings", None) or tokeniser.model_max_length
    first = getattr(getattr(getattr(model, "embeddings", None), "position_embeddings", None), "padding_idx", None)
    return min(tokeniser.model_max_length, positions - (0 if first is None else first + 1))

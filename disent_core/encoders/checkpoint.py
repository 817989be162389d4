"""Checkpoints on disk: find the folder, hash its files, load model and tokeniser, and trust no random weight."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from disent_core.errors import EncoderError, located

PACKAGE_PREFIX = "package:"
_MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
_NOT_READ = {"modules.json", "data_config.json", "training_args.json", "config_sentence_transformers.json"}

# --- files ------------------------------------------------------------------------------------------------


def model_folder(path: str | None, identifier: str | None, revision: str | None) -> Path:
    """Local folder of the model at `path` or, without one, of that `identifier` on the hub: downloaded once.

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
    return Path(next(iter(spec.submodule_search_locations)), inside)


def _from_hub(identifier: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    what = f"{identifier!r} at revision {revision or 'main'!r}"
    patterns = {"allow_patterns": list(_MODEL_FILES), "ignore_patterns": ["*/*"]}
    try:
        return Path(snapshot_download(identifier, revision=revision, **patterns))
    except LocalEntryNotFoundError as error:
        remedy = "Go online once, or put a copy in a folder and set path instead of id"
        raise EncoderError(f"model {what} is not in the local cache and the hub is out of reach. {remedy}") from error
    except (RepositoryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        remedy = "Check id and revision; a gated model needs an accepted licence and a login"
        raise EncoderError(f"model {what} can't be read from the hub ({error}). {remedy}") from error


def files_fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of every file that weights, configuration or tokeniser are read from."""
    files = {file for pattern in _MODEL_FILES for file in folder.glob(pattern) if file.name not in _NOT_READ}
    hashes = {}
    for file in sorted(files):
        with file.open("rb") as stream:
            hashes[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return hashes


# --- model ------------------------------------------------------------------------------------------------


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """transformers without its progress bars and load report; what matters of them is checked here."""
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


def load_model(folder: Path, *, pooler: bool) -> Any:
    """The model in evaluation mode, with every weight from the checkpoint and a pooler only if asked for.

    transformers fills in random weights where a checkpoint has none, a RoBERTa pooler above all.

    Raises:
        EncoderError: if it can't be loaded, or a weight that is needed is not in the checkpoint.
    """
    from transformers import AutoModel

    try:
        with quiet_transformers():
            model, info = AutoModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        remedy = "Check that the folder holds a complete model"
        raise EncoderError(located(folder, None, f"this model can't be loaded ({error})", remedy)) from error
    missing = sorted(info["missing_keys"])
    if pooler and (getattr(model, "pooler", None) is None or any("pooler" in key for key in missing)):
        remedy = "Set pooling to 'cls' or 'mean'"
        raise EncoderError(located(folder, None, "pooling is 'pooler' and the checkpoint has none", remedy))
    if absent := [key for key in missing if "pooler" not in key]:
        remedy = "They would be random. Use a complete checkpoint"
        raise EncoderError(located(folder, None, f"{len(absent)} weights are missing, e.g. {absent[:3]}", remedy))
    if not pooler and getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.eval().requires_grad_(False)


def load_tokeniser(folder: Path) -> Any:
    """The model's fast tokeniser.

    Raises:
        EncoderError: if there is none.
    """
    from transformers import AutoTokenizer

    try:
        tokeniser = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        remedy = "Put the model's tokeniser files beside its weights"
        raise EncoderError(located(folder, None, f"no tokeniser can be loaded ({error})", remedy)) from error
    if not tokeniser.is_fast:
        remedy = "Save it as tokenizer.json"
        raise EncoderError(located(folder, None, "this model has no fast tokeniser", remedy))
    return tokeniser


def longest_input(model: Any, tokeniser: Any) -> int:
    """Most tokens that the model has positions for. RoBERTa's positions start after that of padding."""
    positions = getattr(model.config, "max_position_embeddings", None) or tokeniser.model_max_length
    first = getattr(getattr(getattr(model, "embeddings", None), "position_embeddings", None), "padding_idx", None)
    return min(tokeniser.model_max_length, positions - (0 if first is None else first + 1))

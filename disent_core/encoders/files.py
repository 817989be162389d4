"""Find the folder of a published model, and hash the files that its vectors depend on."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from disent_core.encoders.config import HuggingFaceConfig
from disent_core.encoders.contract import Pooling
from disent_core.errors import EncoderError, located
from disent_core.storage.checksums import brought, sha256_of
from disent_core.storage.tables import fingerprint

CODE_VERSIONS = {"auto": "2", "float32": "2", "bfloat16": "5"}
"""Precision -> version of the code of `huggingface`, which changes with every change that changes vectors."""
DENSE = "2_Dense"
"""Folder in which sentence-transformers saves the dense layer after the pooling, the third module of a model."""
PACKAGE_PREFIX = "package:"
_MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
RECORD = "distillation.json"
"""File in the folder of an encoder that is distilled here: what it was made from."""
_NOT_READ = {RECORD, "modules.json", "data_config.json", "training_args.json", "config_sentence_transformers.json"}


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
    patterns = [*_MODEL_FILES, f"{DENSE}/*.json", f"{DENSE}/*.safetensors"][: None if is_dense(pooling) else -2]
    files = {file for pattern in patterns for file in folder.glob(pattern) if file.name not in _NOT_READ}
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in sorted(files)}


def record_of(folder: Path) -> Mapping[str, Any] | None:
    """The record of an encoder; None if there is none. The other files are not verified."""
    try:
        return json.loads((brought(folder) / RECORD).read_bytes())
    except (OSError, ValueError):
        return None


def is_dense(pooling: Pooling) -> bool:
    """Whether the pooling has a dense layer of its own."""
    return pooling == "cls_dense_norm"


def encoder_fingerprint(config: HuggingFaceConfig, files: Mapping[str, str]) -> str:
    """Fingerprint of everything that vectors depend on: the hashes of the model's files, and how they are used."""
    settings = (config.layer, config.pooling, config.max_length, config.precision, config.batch_tokens)
    # Encoders that are older than this setting keep their fingerprints. In bfloat16 it changes nothing.
    if config.products != "torch" and config.precision != "bfloat16":
        settings = (*settings, config.products)
    stored = (config.vector_dtype, config.states_dtype)
    return fingerprint("huggingface", CODE_VERSIONS[config.precision], files, settings, stored)

"""A published model of Hugging Face: a folder, an installed package or a name on the hub, in safetensors.

Kinds whose models the lineage makes (`ModelMadeHere`) save them as such folders, and load them as this kind does.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from disent_core.encoders.contract import (
    PACKAGE_PREFIX,
    Device,
    Encoder,
    EncoderConfig,
    EncoderFiles,
    FloatName,
    Layers,
    Pooling,
    StatesName,
    not_made_yet,
)
from disent_core.errors import EncoderError, located
from disent_core.registry import imported
from disent_core.storage.files import storage_errors
from disent_core.storage.results import fetch, open_result, sha256_of
from disent_core.storage.tables import fingerprint

CODE_VERSIONS = {"auto": "2", "float32": "2", "bfloat16": "5", "int8": "1"}
"""Precision -> version of the code of `transformer`, which changes with every change that changes vectors."""
DENSE = "2_Dense"
"""Folder where sentence-transformers saves the dense layer after pooling, the third module of a model."""
RECORD = "distillation.json"
"""File in a distilled encoder's folder that records what it was made from."""
OF_READING = ("name", "pooling", "layer", "max_length", "products", "vector_dtype", "states_dtype")
"""Settings by which a model that is made here is read."""
_MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
_NOT_READ = {RECORD, "modules.json", "data_config.json", "training_args.json", "config_sentence_transformers.json"}

Precision = Literal["auto", "float32", "bfloat16", "int8"]
Products = Literal["onednn", "torch"]
Length = Annotated[int, Ge(3), Le(1_000_000)]
TokensOfBatch = Annotated[int, Ge(1), Le(100_000_000)]
Vocabulary = Annotated[int, Ge(100), Le(10_000_000)]


@dataclass(frozen=True, kw_only=True)
class HuggingFaceConfig(EncoderConfig):
    """One frozen model and how its states become a sentence vector. Exactly one of `path` and `id` is set.

    Attributes:
        path: folder of the model; `package:NAME/sub/folder` is a folder inside an installed Python package.
        id: name of the model on the hub.
        revision: branch, tag or commit of the model on the hub; if omitted, its main branch.
        pooling: `cls` is the state at position 0; `mean` the mean over tokens, including special tokens but not
            padding; `pooler` the checkpoint's own pooler; `cls_dense_norm` the pipeline that sentence-transformers has
            for LaBSE: state at position 0, its `2_Dense` layer, tanh, norm 1.
        layer: index into `hidden_states`: 0 is the embedding layer, -1 the last layer. With several, as in `[2, 4]`,
            the states are concatenated, and so are the pooled vectors. Blocks above the highest layer are not run.
        max_length: tokens read from a text, including special tokens.
        prefix: text put before every text, such as `query: ` for E5, including the space. Its tokens are part of the
            mean and of the token states, and count towards `max_length`.
        batch_tokens: tokens per batch, including padding and filling; if omitted, a size is chosen for the device. The
            last bits of vectors depend on it, so it is part of the fingerprint.
        precision: number format of the weights and of the computation; `auto` is float32 on every device, so that no
            table mixes formats. bfloat16 changes vectors by about 1e-2 of their size; int8, for CPUs only, rounds the
            weights and inputs of matrix products, each row by its largest value. Methods that fine-tune the encoder
            have their own setting, and exported folders compute in float32.
        products: library for float32 matrix products on a CPU. `onednn` takes half the time of `torch` on processors
            other than Intel's, and vectors differ in their last bits. On a GPU, where torch has no oneDNN, and in
            bfloat16 and int8, both are the same.
        vector_dtype: number format of stored sentence vectors.
        states_dtype: number format of stored token states. `int8` takes half the memory of `float16`; the values of a
            token share a scale.
        saw: what the model was trained on, for the column `encoder_saw` beside its numbers: "English", "bitext". A
            folder that was distilled here records this itself.
    """

    earlier_defaults: ClassVar[Mapping[str, Any]] = {"products": "torch"}

    path: str | None = None
    id: str | None = None
    revision: str | None = None
    pooling: Pooling = "cls"
    layer: Layers = -1
    max_length: Length = 128
    prefix: str = field(default="", repr=False)  # hashed apart, so that encoders without it stay as they were
    batch_tokens: TokensOfBatch | None = None
    precision: Precision = "auto"
    products: Products = "onednn"
    vector_dtype: FloatName = "float32"
    states_dtype: StatesName = "float16"
    saw: str | None = field(default=None, repr=False)  # not in fingerprints, which read the representation

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.path is None) == (self.id is None):
            both = " and not both" if self.path else ""
            raise ValueError(f"encoder {self.name!r} needs a path or an id{both}")
        if self.revision is not None and self.id is None:
            raise ValueError(f"encoder {self.name!r}: revision {self.revision!r} needs an id")
        if self.pooling in ("pooler", "cls_dense_norm") and self.layer != -1:
            raise ValueError(f"encoder {self.name!r}: a pooler reads the last layer, not layer {self.layer}")

    def fingerprint(self, folder: Path) -> str:
        return _fingerprint(self, has_checksums=False)

    def load(self, folder: Path, language: str, device: Device) -> Encoder:
        return imported("disent_core.encoders.transformer:load")(self, device)  # loads torch

    def files(self, folder: Path) -> EncoderFiles:
        return _files(self, self.fingerprint(folder))

    def has_seen(self, config: Any) -> str | None:
        record = record_of(Path(self.path)) if self.path else None
        return (record or {}).get("encoder_saw") or self.saw


@dataclass(frozen=True, kw_only=True)
class ModelMadeHere(EncoderConfig):
    """The settings of a kind whose `steps` make a folder of Hugging Face.

    They have those of a `HuggingFaceConfig` on which the reading of a model depends, as fields or for the whole class.
    """

    def model(self, folder: Path) -> HuggingFaceConfig:
        """Return the settings that load the model in the folder."""
        return HuggingFaceConfig(path=str(folder), **{name: getattr(self, name) for name in OF_READING})

    def saved(self, folder: Path) -> HuggingFaceConfig:
        if not fetch(folder).is_dir():
            raise not_made_yet(folder, self.name)
        return self.model(folder)

    def fingerprint(self, folder: Path) -> str:
        return _fingerprint(self.saved(folder), has_checksums=True)

    def load(self, folder: Path, language: str, device: Device) -> Encoder:
        return self.saved(folder).load(folder, language, device)

    def files(self, folder: Path) -> EncoderFiles:
        return _files(self.saved(folder), self.fingerprint(folder))


# --- fingerprints -----------------------------------------------------------------------------------------


def _files(config: HuggingFaceConfig, encoder_fingerprint: str) -> EncoderFiles:
    folder = model_folder(config.path, config.id, config.revision)
    return EncoderFiles(folder, config.pooling, config.layer, config.max_length, encoder_fingerprint, config.prefix)


def _fingerprint(config: HuggingFaceConfig, *, has_checksums: bool) -> str:
    folder = model_folder(config.path, config.id, config.revision)
    files = sorted([*folder.iterdir(), *folder.glob(f"{DENSE}/*")])
    file_stats = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return encoder_fingerprint(config, _hashes(folder, config.pooling, file_stats, has_checksums))


@lru_cache(maxsize=16)
def _hashes(
    folder: Path, pooling: Pooling, file_stats: tuple[tuple[str, int, int], ...], has_checksums: bool
) -> dict[str, str]:
    """Hash the model's files; hash them again when a file's time or size has changed."""
    del file_stats  # part of the key only
    if has_checksums and open_result(folder) is None:
        remedy = "It was quarantined. Materialise it again to make a new one"
        raise EncoderError(located(folder, None, "this model does not match its checksums", remedy))
    return files_fingerprint(folder, pooling)


def encoder_fingerprint(config: HuggingFaceConfig, files: Mapping[str, str]) -> str:
    """Return the fingerprint of everything that vectors depend on: the hashes of the model's files, and their use."""
    settings = (config.layer, config.pooling, config.max_length, config.precision, config.batch_tokens)
    # Encoders older than this setting keep their fingerprints. It has no effect in bfloat16 and int8.
    if config.products != "torch" and config.precision in ("auto", "float32"):
        settings = (*settings, config.products)
    if config.prefix:
        settings = (*settings, "prefix", config.prefix)
    stored = (config.vector_dtype, config.states_dtype)
    return fingerprint("huggingface", CODE_VERSIONS[config.precision], files, settings, stored)


def files_fingerprint(folder: Path, pooling: Pooling = "cls") -> dict[str, str]:
    """Return the SHA-256 of every file that weights, configuration or tokeniser are read from."""
    patterns = [*_MODEL_FILES, f"{DENSE}/*.json", f"{DENSE}/*.safetensors"][: None if is_dense(pooling) else -2]
    files = {file for pattern in patterns for file in folder.glob(pattern) if file.name not in _NOT_READ}
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in sorted(files)}


def is_dense(pooling: Pooling) -> bool:
    return pooling == "cls_dense_norm"


def record_of(folder: Path) -> Mapping[str, Any] | None:
    """Return the record of a distilled encoder; None if there is none. The other files are not verified."""
    try:
        return json.loads((fetch(folder) / RECORD).read_bytes())
    except (OSError, ValueError):
        return None


# --- the folder of a model --------------------------------------------------------------------------------


def model_folder(path: str | None, identifier: str | None, revision: str | None) -> Path:
    """Return the folder of the model at `path` or, without one, of that `identifier` on the hub, downloaded once."""
    folder = _from_path(path) if path else _from_hub(identifier or "", revision)
    with storage_errors(folder):
        is_folder = folder.is_dir()
    if not is_folder:
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
        raise EncoderError(f"{path!r} points outside package {package!r}. Name a folder inside it, package:NAME/folder")
    return Path(next(iter(spec.submodule_search_locations)), inside)


def cached(config: HuggingFaceConfig) -> HuggingFaceConfig:
    """Return settings with a model's folder in the hub's local cache, without contacting the hub."""
    if config.id is None:
        return config
    return replace(config, path=str(_from_hub(config.id, config.revision, is_online=False)), id=None, revision=None)


def _from_hub(identifier: str, revision: str | None, *, is_online: bool = True) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    model = f"{identifier!r} at revision {revision or 'main'!r}"
    wanted: Any = {"revision": revision, "local_files_only": not is_online}
    patterns = [*_MODEL_FILES, *(f"{DENSE}/{pattern}" for pattern in _MODEL_FILES)]
    other_folders = ["[!2]*/*", "2[!_]*/*"]  # a star matches slashes too
    try:
        return Path(snapshot_download(identifier, **wanted, allow_patterns=patterns, ignore_patterns=other_folders))
    except LocalEntryNotFoundError as error:
        if not is_online:
            problem = f"model {model} is not in the local cache, and a model that a file names is not downloaded"
            raise EncoderError(f"{problem}. Download it if you trust it, with hf download") from error
        remedy = "Go online once, or put a copy in a folder and set path instead of id"
        raise EncoderError(f"model {model} is not in the local cache and the hub is out of reach. {remedy}") from error
    except (RepositoryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        remedy = "Check id and revision; a gated model needs an accepted licence and a login"
        raise EncoderError(f"model {model} can't be read from the hub ({error}). {remedy}") from error

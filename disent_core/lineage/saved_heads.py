"""Open a head from its file alone; the description in it names the method and the encoder."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from disent_core.encoders import LazyEncoder
from disent_core.encoders.contract import Device, Encoder, EncoderConfig
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig, cached
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import DamagedError, DisentError, EncoderError, StorageError, TrainingError, located, quoted
from disent_core.lineage.head_records import check_description, encoder_of, listed, method_of
from disent_core.methods.contract import Method
from disent_core.methods.spec import ENCODER_CONFIG, describe_head
from disent_core.methods.trainer import TrainedLabeller, TrainedMethod, trainer
from disent_core.settings import Settings
from disent_core.static_folder import no_model
from disent_core.storage.results import has_manifest
from disent_core.storage.weights import describe_copy
from disent_core.training.data import TextFeatures, features_of, words_alone
from disent_core.training.needs import Need

_AGAIN = "Train it again with this version of disent"


@dataclass(frozen=True)
class SavedHead:
    """A head on disk, with everything needed to apply it. Weights and encoder are read on first use."""

    path: Path
    description: Mapping[str, Any]
    """Method, training data and settings; see `methods.spec`."""
    content: str
    """Fingerprint of its weights."""
    method: Method[Any]
    settings: Settings
    source: LazyEncoder
    device: str

    @cached_property
    def trained(self) -> TrainedMethod | TrainedLabeller:
        files = self.source.files if Need.ENCODER in self.method.needs_of(self.settings) else None
        return trainer(self.method).load(self.path, self.settings, self.device, files)

    @property
    def encoder_config(self) -> EncoderConfig:
        return self.source.config

    @cached_property
    def encoder(self) -> Encoder:
        encoder = self.source.load("")
        if encoder.dim != self.description["dim"]:
            problem = f"its encoder has {encoder.dim} dimensions, but it was trained on {self.description['dim']}"
            raise DamagedError(located(self.path, None, problem, _AGAIN))
        return encoder

    def features(self, texts: Sequence[str], language: str) -> TextFeatures:
        """Encode texts into what the head reads, in order."""
        if not self.method.reads_encoder:
            return words_alone(texts, language)
        states = Need.TOKEN_STATES in self.method.needs_of(self.settings)
        return features_of(self.encoder, texts, language, states=states)


def open_head(
    path: Path, *, device: Device = "auto", encoder: Path | None = None, allowed: Collection[str] = ()
) -> SavedHead:
    """Open the head in a safetensors file.

    `encoder` is the folder of its encoder, if that has moved; `allowed` are modules of the user that the file may name.
    """
    # Without a manifest the file is a copy or somebody else's, and must not be quarantined as a damaged head.
    described = describe_head(path) if has_manifest(path) else describe_copy(path)
    if described is None:
        raise no_model(path)
    description, content = described
    check_description(path, description)
    if description.get(ENCODER_CONFIG) is None:
        raise TrainingError(located(path, None, "this head does not name its encoder", _AGAIN))
    method, settings = method_of(path, description, allowed)
    source = _encoder(path, description, device, encoder, allowed, is_read=method.reads_encoder)
    return SavedHead(path, description, content, method, settings, source, resolve_device(device))


def _encoder(
    path: Path,
    description: Mapping[str, Any],
    device: Device,
    folder: Path | None,
    allowed: Collection[str],
    *,
    is_read: bool,
) -> LazyEncoder:
    """Return the encoder with the fingerprint that the head names: where it was, or beside the head's file."""
    wanted, recorded = description["encoder_fingerprint"], description[ENCODER_CONFIG]

    def at(place: Path | None) -> LazyEncoder:
        described = recorded | ({"path": str(place.resolve()), "id": None, "revision": None} if place else {})
        config = encoder_of(path, described, path.resolve().parent, allowed)
        if is_read and isinstance(config, HuggingFaceConfig) and config.id not in listed(allowed):
            config = cached(config)
        return LazyEncoder(config, path, device)

    try:
        source = at(folder)
        problem = _difference(source, wanted) if is_read else None
        if problem is None:
            return source
    except (EncoderError, StorageError) as error:
        problem = _first(error)
    if folder is None and "path" in recorded:
        beside = path.resolve().parent
        for place in sorted({file.parent for file in (*beside.glob("config.json"), *beside.glob("*/config.json"))}):
            if _difference(moved := at(place), wanted) is None:
                return moved
    missing = f"the encoder {quoted(recorded.get('name'))} of this head (fingerprint {wanted}) was not found: {problem}"
    identifier = recorded.get("id")
    get = f"Download {quoted(identifier)} if you trust it (hf download), name" if identifier else "Name"
    remedy = f"{get} its folder as encoder=, put a copy of it beside this file, or use an exported folder"
    raise EncoderError(located(path, None, missing, remedy))


def _difference(source: LazyEncoder, wanted: str) -> str | None:
    """Return why an encoder does not have the wanted fingerprint; None if it does."""
    try:
        is_other = source.fingerprint != wanted
    except (EncoderError, StorageError) as error:
        return _first(error)
    return "the one there is not the one that the head was trained on" if is_other else None


def _first(error: DisentError) -> str:
    """Return the problem in an error's message, without the remedy."""
    return str(error).rstrip(".").partition(". ")[0]

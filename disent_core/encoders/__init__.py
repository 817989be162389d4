"""Frozen encoders, from texts to vectors: the interface (`contract`), the kinds, and what they compute with.

To add a kind, add a module to `kinds` with a subclass of `contract.EncoderConfig`, and a line in `ENCODER_KINDS`. A
kind outside the library needs no line: the configuration names its class, `kind = "my_package.my_kind:MyConfig"`.

A configured encoder is loaded when texts are encoded (`LazyEncoder`); a saved head stores the encoder's settings.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from disent_core.encoders.contract import PACKAGE_PREFIX, Device, Encoder, EncoderConfig, EncoderFiles
from disent_core.errors import ConfigError
from disent_core.registry import find

ENCODER_KINDS: dict[str, str] = {
    "huggingface": "disent_core.encoders.kinds.huggingface:HuggingFaceConfig",
    "scratch": "disent_core.encoders.kinds.scratch:ScratchConfig",
    "vectors": "disent_core.encoders.kinds.vectors:VectorsConfig",
    "distilled": "disent_core.encoders.kinds.distilled:DistilledConfig",
    "words": "disent_core.encoders.kinds.words:WordsConfig",
}
"""Kind, as the configuration names it -> the class of its settings, which makes and loads the encoder."""


def encoder_kind(name: str) -> type[EncoderConfig]:
    """Return the settings class of a kind, from the library or, as `module:CLASS`, from a user's package."""
    settings = find("encoder kind", name, ENCODER_KINDS)
    if not (isinstance(settings, type) and issubclass(settings, EncoderConfig)):
        remedy = "name a subclass of disent_core.encoders.contract.EncoderConfig, as package.module:CLASS"
        raise ConfigError(f"encoder kind {name!r} is {settings!r}; {remedy}")
    return settings


def name_of_kind(settings: EncoderConfig) -> str:
    """Return an encoder's kind, as named in the configuration."""
    address = f"{type(settings).__module__}:{type(settings).__name__}"
    return next((name for name, registered in ENCODER_KINDS.items() if registered == address), address)


@dataclass(frozen=True)
class LazyEncoder:
    """An encoder identified by its settings and files, and loaded only when texts are encoded.

    `folder` has its model if the lineage makes it; other models are where their settings point.
    """

    config: EncoderConfig
    folder: Path
    device: Device = "auto"

    @property
    def saved_config(self) -> EncoderConfig:
        return self.config.saved(self.folder)

    @property
    def fingerprint(self) -> str:
        return self.config.fingerprint(self.folder)

    @property
    def files(self) -> EncoderFiles:
        return self.config.files(self.folder)

    def load(self, language: str) -> Encoder:
        return self.config.load(self.folder, language, self.device)


def describe_config(config: EncoderConfig, folder: Path) -> dict[str, Any]:
    """Return an encoder's settings for a file in `folder`, as `lineage.head_records.encoder_of` reads them.

    The model's path is made relative to the folder, so that both can be moved together; a package path is unchanged.
    """
    settings = {"kind": name_of_kind(config), **asdict(config)}
    path: str | None = settings.get("path")
    if path is not None and not path.startswith(PACKAGE_PREFIX):
        settings["path"] = os.path.relpath(path, folder)
    return settings

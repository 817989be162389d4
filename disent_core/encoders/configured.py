"""One configured encoder: its settings with its folder and device, and how a saved head describes it."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from disent_core.encoders import encoder_kind, name_of_kind
from disent_core.encoders.contract import PACKAGE_PREFIX, Device, Encoder, EncoderConfig, EncoderFiles


@dataclass(frozen=True)
class LazyEncoder:
    """An encoder that is identified by its settings and files, and loaded only when texts are encoded.

    `folder` is where its model lies if the lineage makes it; other models lie where their own settings say.
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
    """Return settings that `described_config` reads, for a file in `folder`.

    The path of a model is relative to the folder, so that both can be moved together; one in a package stays as it is.
    """
    settings = {"kind": name_of_kind(config), **asdict(config)}
    path: str | None = settings.get("path")
    if path is not None and not path.startswith(PACKAGE_PREFIX):
        settings["path"] = os.path.relpath(path, folder)
    return settings


def described_config(description: Mapping[str, Any], folder: Path) -> EncoderConfig:
    """Return the settings that `describe_config` wrote for a file in `folder`."""
    kind = encoder_kind(description["kind"])
    settings = {**kind.earlier_defaults, **description}
    del settings["kind"]
    if isinstance(settings.get("layer"), list):  # a tuple became a list in JSON
        settings["layer"] = tuple(settings["layer"])
    return kind(**settings).resolved(folder)

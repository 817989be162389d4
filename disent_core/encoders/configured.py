"""One configured encoder: its settings with its folder and device, and how a saved head describes it."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from disent_core.encoders import name_of_kind
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
    """Return settings that `lineage.head_records.encoder_of` reads, for a file in `folder`.

    The path of a model is relative to the folder, so that both can be moved together; one in a package stays as it is.
    """
    settings = {"kind": name_of_kind(config), **asdict(config)}
    path: str | None = settings.get("path")
    if path is not None and not path.startswith(PACKAGE_PREFIX):
        settings["path"] = os.path.relpath(path, folder)
    return settings

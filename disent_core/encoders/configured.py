"""An encoder as configured: identified by its settings and files, and loaded only when texts are encoded."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from disent_core.encoders import imported
from disent_core.encoders.config import (
    DistilledConfig,
    HuggingFaceConfig,
    ScratchConfig,
    VectorsConfig,
    frozen,
    identity,
)
from disent_core.encoders.contract import Device, Encoder, EncoderFiles, Pooling
from disent_core.encoders.files import DENSE, PACKAGE_PREFIX, encoder_fingerprint, files_fingerprint, model_folder
from disent_core.errors import EncoderError, located
from disent_core.storage.checksums import (
    brought,
    ignore_damaged,
    is_verified_folder,
    read_verified,
    write_checksummed_text,
)
from disent_core.storage.remote import sole_maker
from disent_core.storage.tables import fingerprint


@dataclass(frozen=True)
class PretrainReport:
    """Result of `LazyEncoder.pretrain`: 0 steps if the encoder was on disk already."""

    steps: int
    loss: float
    texts: int


@dataclass(frozen=True)
class LazyEncoder:
    """One configured encoder.

    `folder` is where its model lies if the lineage makes it; a Hugging Face model and imported vectors lie where
    their own settings say.
    """

    config: Any
    folder: Path
    device: Device = "auto"

    @property
    def is_pretrained_here(self) -> bool:
        """Whether the lineage itself pretrains or distils the model."""
        return isinstance(self.config, ScratchConfig | DistilledConfig)

    @property
    def model_config(self) -> HuggingFaceConfig | VectorsConfig:
        """The settings that load it: those of the model in `folder`, if the lineage pretrains it.

        Raises:
            EncoderError: if the model is not pretrained yet.
        """
        return self.config if isinstance(self.config, VectorsConfig) else self._frozen()

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the loaded encoder, computed from its files alone.

        Raises:
            EncoderError: if the model, or the vectors, are not there.
        """
        if isinstance(self.config, VectorsConfig):
            return imported.encoder_fingerprint(self.config)
        config = self._frozen()
        folder = model_folder(config.path, config.id, config.revision)
        files = sorted([*folder.iterdir(), *folder.glob(f"{DENSE}/*")])
        stamps = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        return encoder_fingerprint(config, _hashes(folder, config.pooling, stamps, self.is_pretrained_here))

    @property
    def files(self) -> EncoderFiles:
        """The model on disk, for a method that fine-tunes it.

        Raises:
            EncoderError: if the model is not there, or the encoder has none.
        """
        if isinstance(self.config, VectorsConfig):
            raise EncoderError(f"encoder {self.config.name!r} is imported vectors: there is no model to tune")
        config = self._frozen()
        folder = model_folder(config.path, config.id, config.revision)
        return EncoderFiles(folder, config.pooling, config.layer, config.max_length, self.fingerprint)

    def load(self, language: str) -> Encoder:
        """Load the encoder, ready to encode texts of this language.

        Raises:
            EncoderError: if it can't be loaded.
        """
        if isinstance(self.config, VectorsConfig):
            return imported.load(self.config, language)
        from disent_core.encoders import huggingface

        return huggingface.load(self._frozen(), self.device)

    def pretrain(
        self, texts: Callable[[], Sequence[str]], pairs: Callable[[], Sequence[tuple[str, str]]]
    ) -> PretrainReport:
        """Pretrain and freeze the model, unless one of this configuration is in `folder` already.

        A frozen encoder does not change when texts change later: delete its folder to pretrain it again.
        """
        with sole_maker(self.folder):
            return self._done() or self._pretrain(texts, pairs)

    @property
    def _record(self) -> Path:
        return self.folder.with_suffix(".json")

    def _done(self) -> PretrainReport | None:
        record = ignore_damaged(lambda: read_verified(self._record))
        if record is None or not is_verified_folder(self.folder):
            return None
        stored = json.loads(record)
        is_current = stored["config"] == fingerprint(identity(self.config))
        return PretrainReport(0, stored["loss"], stored["texts"]) if is_current else None

    def _pretrain(
        self, texts: Callable[[], Sequence[str]], pairs: Callable[[], Sequence[tuple[str, str]]]
    ) -> PretrainReport:
        from disent_core.encoders.pretraining import final_loss, pretrain

        training_texts = texts()
        translations = pairs() if self.config.translation else ()
        steps = replayed = 0
        for epoch in pretrain(training_texts, self.config, self.folder, self.device, pairs=translations):
            steps = epoch.steps
            replayed = steps if epoch.is_replayed else replayed
        loss = final_loss(self.folder)
        record = {"config": fingerprint(identity(self.config)), "loss": loss, "texts": len(training_texts)}
        write_checksummed_text(self._record, json.dumps(record) + "\n")
        return PretrainReport(steps - replayed, loss, len(training_texts))

    def _frozen(self) -> HuggingFaceConfig:
        if not self.is_pretrained_here:
            return self.config
        if not brought(self.folder).is_dir():
            remedy = f"Materialise the asset embeddings/{self.config.name}/{self.config.name}_encoder first"
            raise EncoderError(located(self.folder, None, f"{self.config.name!r} is not made yet", remedy))
        return frozen(self.config, self.folder)


def describe_config(config: HuggingFaceConfig | VectorsConfig, folder: Path) -> dict[str, Any]:
    """Return settings that `described_config` reads, for a file in `folder`.

    The path of a model is relative to the folder, so that both can be moved together; one in a package stays as it is.
    """
    path = config.path
    if path is not None and not path.startswith(PACKAGE_PREFIX):
        path = os.path.relpath(path, folder)
    kind = "vectors" if isinstance(config, VectorsConfig) else "huggingface"
    return {"kind": kind, **asdict(config), "path": path}


def described_config(description: Mapping[str, Any], folder: Path) -> HuggingFaceConfig | VectorsConfig:
    """Return the settings that `describe_config` wrote for a file in `folder`."""
    kinds = {"vectors": VectorsConfig, "huggingface": HuggingFaceConfig}
    settings = {name: value for name, value in description.items() if name != "kind"}
    if isinstance(settings.get("layer"), list):
        settings["layer"] = tuple(settings["layer"])
    if description["kind"] == "huggingface":
        settings.setdefault("products", "torch")  # of heads that are older than this setting
    return kinds[description["kind"]](**settings).resolved(folder)


@lru_cache(maxsize=16)
def _hashes(
    folder: Path, pooling: Pooling, stamps: tuple[tuple[str, int, int], ...], has_checksums: bool
) -> dict[str, str]:
    """Hashes of the model's files; they are read again when a file's time or size has changed."""
    del stamps  # part of the key only
    if has_checksums and not is_verified_folder(folder):
        remedy = "It was quarantined. Materialise it again to pretrain a new one"
        raise EncoderError(located(folder, None, "this model does not match its checksums", remedy))
    return files_fingerprint(folder, pooling)

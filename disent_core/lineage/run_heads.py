"""The heads of a run, trained or not, ready to be applied to any text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from disent_core.config.model import MethodConfig
from disent_core.embeddings.arrays import StateTable, VectorTable
from disent_core.embeddings.store import STATES, VECTORS, encoded_tables
from disent_core.encoders import name_of_kind
from disent_core.encoders.contract import Encoder, EncoderConfig
from disent_core.encoders.transformer import resolve_device
from disent_core.errors import TrainingError
from disent_core.lineage.embeddings import lazy_encoder, open_embeddings, store
from disent_core.lineage.head_spec import head_run, version
from disent_core.lineage.heads import load_head
from disent_core.lineage.workspace import Workspace
from disent_core.methods.contract import Method
from disent_core.methods.spec import describe_head
from disent_core.methods.trainer import TrainedLabeller, TrainedMethod
from disent_core.settings import Settings
from disent_core.text import text_keys
from disent_core.training.data import TextFeatures, text_features
from disent_core.training.needs import Need


def modules_of(workspace: Workspace, encoder: str, configured: MethodConfig) -> tuple[str, ...]:
    """Return the names in a head's configuration: its method, encoder kind, and the encoder's name on the hub."""
    config = lazy_encoder(workspace, encoder).saved_config
    identifier: str | None = getattr(config, "id", None)
    return configured.base, name_of_kind(config), *([identifier] if identifier else [])


@dataclass(frozen=True)
class RunHead:
    """A method on an encoder and a training set of a run, with the interface of `saved_heads.SavedHead`."""

    workspace: Workspace
    configured: MethodConfig
    encoder: str
    trained_on: str

    @property
    def method(self) -> Method[Any]:
        return self.configured.method

    @property
    def settings(self) -> Settings:
        return self.configured.settings

    @property
    def path(self) -> Path | None:
        """File of its weights; None if it is untrained."""
        names = (self.encoder, self.configured.name, self.trained_on)
        return self.workspace.head(*names) if self.method.is_trained else None

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """What was trained; for an untrained method, its names."""
        if self.method.is_trained:
            return self._described()[0]
        run = head_run(self.workspace, self.encoder, self.configured, self.trained_on)
        names = {"name": run.name, "encoder": run.encoder, "trained_on": "", "seeds": []}
        return names | {"encoder_fingerprint": run.encoder_fingerprint}

    @cached_property
    def content(self) -> str:
        """Fingerprint of its weights, or of the code and settings of an untrained method."""
        return self._described()[1] if self.method.is_trained else version(self.configured)

    @property
    def encoder_config(self) -> EncoderConfig:
        return self.workspace.config.encoders[self.encoder]

    @property
    def device(self) -> str:
        return resolve_device(self.workspace.config.experiment.device)

    @cached_property
    def trained(self) -> TrainedMethod | TrainedLabeller:
        return load_head(self.workspace, self.encoder, self.configured, self.trained_on, self.device)

    def features(self, texts: Sequence[str], language: str) -> TextFeatures:
        """Return what the head reads of each text, in order; nothing is looked up if the language is unknown (empty).

        A text that the run has encoded is looked up. Any other text is encoded on demand and not stored. The model is
        loaded with the first such text.
        """
        keys = text_keys(texts)
        tables = self._stored(language)
        has_keys = [table.has(keys) for table in tables or () if table is not None] or [np.zeros(len(keys), dtype=bool)]
        is_stored = np.logical_and.reduce(has_keys)  # a text whose every feature is stored
        missing = {key: text for key, text, stored in zip(keys, texts, is_stored, strict=True) if not stored}
        parts = [tables] if tables is not None and is_stored.any() else []
        if missing:
            # A model encodes all languages; imported vectors have separate files for each.
            encoder = self._loaded(language if self.encoder_config.reads_one_language else "")
            parts.append(encoded_tables(encoder, missing, states=self._reads_states))
        return text_features(keys, *parts, language=language, texts=list(texts))

    @property
    def _reads_states(self) -> bool:
        return Need.TOKEN_STATES in self.configured.needs

    # Cached, because opening a file verifies all of it and a model takes seconds to load.
    @cached_property
    def _loaded(self) -> Callable[[str], Encoder]:
        return cache(lazy_encoder(self.workspace, self.encoder).load)

    @cached_property
    def _stored(self) -> Callable[[str], tuple[VectorTable, StateTable | None] | None]:
        return cache(self._open)

    def _open(self, language: str) -> tuple[VectorTable, StateTable | None] | None:
        """Open the tables of stored features; None if there are none."""
        if not language:
            return None
        embedding_store = store(self.workspace, self.encoder, language)
        if not all(embedding_store.parts(table) for table in (VECTORS, STATES)[: 1 + self._reads_states]):
            return None
        return open_embeddings(self.workspace, self.encoder, language, self.configured.needs)

    def _described(self) -> tuple[Mapping[str, Any], str]:
        if self.path is None or (described := describe_head(self.path)) is None:
            raise TrainingError(f"no trained head at {self.path}. Run `disent materialize`")
        return described

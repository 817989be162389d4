"""Look up or compute the features that a frozen encoder gives for texts."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from disent_core.embeddings.arrays import StateTable, VectorTable
from disent_core.embeddings.store import STATES, VECTORS, encoded_tables
from disent_core.encoders.contract import Encoder
from disent_core.lineage.embeddings import lazy_encoder, store
from disent_core.lineage.workspace import Workspace
from disent_core.text import text_keys
from disent_core.training.data import TextFeatures, text_features
from disent_core.training.needs import Need


class TextEncoder:
    """Encodes any texts with one encoder of a run.

    A text that the run has encoded is looked up. Any other text is encoded on demand and not stored. The model is
    loaded with the first such text.

    Args:
        workspace: of the run.
        encoder: name of the encoder.
        needs: what the method needs; token states are returned if it needs them.
    """

    def __init__(self, workspace: Workspace, encoder: str, needs: frozenset[Need]) -> None:
        self._workspace, self._name, self._states = workspace, encoder, Need.TOKEN_STATES in needs
        # Cached: opening a file verifies all of it, and a model takes seconds to load.
        self._stored = cache(self._open)
        self._encoder = cache(self._load)

    def features(self, texts: Sequence[str], language: str) -> TextFeatures:
        """Return the features of each text, in order; texts may repeat.

        Args:
            texts: at least one.
            language: of all of them; empty if it is not known: then nothing is looked up.
        """
        keys = text_keys(texts)
        tables = self._stored(language)
        is_stored = _are_stored(keys, tables)
        missing = {key: text for key, text, stored in zip(keys, texts, is_stored, strict=True) if not stored}
        parts = [tables] if tables is not None and any(is_stored) else []
        if missing:
            parts.append(encoded_tables(self._encoder_of(language), missing, states=self._states))
        return text_features(keys, *parts, language=language, texts=list(texts))

    def _open(self, language: str) -> tuple[VectorTable, StateTable | None] | None:
        """The tables of stored features; None if there are none."""
        if not language:
            return None
        embedding_store = store(self._workspace, self._name, language)
        if not all(embedding_store.parts(table) for table in (VECTORS, STATES)[: 1 + self._states]):
            return None
        return embedding_store.open_vectors(), embedding_store.open_states() if self._states else None

    def _encoder_of(self, language: str) -> Encoder:
        """Return the encoder of a language: a model encodes all languages, imported vectors have files for each."""
        settings = self._workspace.config.encoders[self._name]
        return self._encoder(language if settings.reads_one_language else "")

    def _load(self, language: str) -> Encoder:
        return lazy_encoder(self._workspace, self._name).load(language)


def _are_stored(keys: Sequence[str], tables: tuple[VectorTable, StateTable | None] | None) -> list[bool]:
    """Whether all features of each text are stored."""
    if tables is None:
        return [False] * len(keys)
    found = [table.has(keys) for table in tables if table is not None]
    return np.logical_and.reduce(found).tolist()

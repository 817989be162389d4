"""Texts -> what a frozen encoder gives for each: stored by the run, or encoded now."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from disent_core.embeddings.arrays import StateTable, VectorTable
from disent_core.embeddings.in_memory import encoded_tables
from disent_core.embeddings.store import STATES, VECTORS, EmbeddingStore
from disent_core.encoders.contract import Encoder
from disent_core.encoders.imported import VectorsConfig
from disent_core.experiment.embeddings import lazy_encoder, store
from disent_core.experiment.workspace import Workspace
from disent_core.text import text_keys
from disent_core.training.data import TextFeatures, state_bank, vector_bank
from disent_core.training.needs import Need


class TextEncoder:
    """One encoder of a run, asked for any texts.

    A text that the run has encoded is looked up. Any other is encoded now, and is not kept. The model is loaded with
    the first such text.

    Args:
        workspace: where the run has its embeddings.
        encoder: name of the encoder.
        needs: whether token states are wanted too.
    """

    def __init__(self, workspace: Workspace, encoder: str, needs: frozenset[Need]) -> None:
        self._workspace, self._name, self._states = workspace, encoder, Need.TOKEN_STATES in needs
        # Once each: files are checked whole when they are opened, and a model takes seconds to load.
        self._stored = cache(self._open)
        self._encoder = cache(self._load)

    def features(self, texts: Sequence[str], language: str) -> TextFeatures:
        """What the encoder gives for each text, in order; texts may repeat.

        Args:
            texts: at least one.
            language: of all of them.

        Raises:
            EncoderError: if a text can't be encoded, or the model can't be loaded.
            TableError: if a stored embedding is damaged.
        """
        keys = np.asarray(text_keys(texts))
        known, tables = self._stored(language)
        is_stored = np.asarray([key in known for key in keys])
        parts = [(tables, is_stored)] if tables is not None and is_stored.any() else []
        if not is_stored.all():
            missing = {str(key): text for key, text, stored in zip(keys, texts, is_stored, strict=True) if not stored}
            parts.append((encoded_tables(self._encoder_of(language), missing, states=self._states), ~is_stored))
        vectors = [part[0] for part, _ in parts]
        states = [part[1] for part, _ in parts if part[1] is not None]
        return TextFeatures(
            vector_bank(vectors),
            _rows(vectors, [where for _, where in parts], keys),
            state_bank(states) if self._states else None,
            _rows(states, [where for _, where in parts], keys) if self._states else None,
            language,
            list(texts),
        )

    def _open(self, language: str) -> tuple[frozenset[str], tuple[VectorTable, StateTable | None] | None]:
        """Keys of the texts of which everything is stored, and the tables; None where nothing is."""
        place = store(self._workspace, self._name, language)
        keys = _keys(place, states=self._states)
        if not keys:
            return keys, None
        return keys, (place.open_vectors(), place.open_states() if self._states else None)

    def _encoder_of(self, language: str) -> Encoder:
        """A model is the same for all languages; imported vectors have files of each."""
        is_imported = isinstance(self._workspace.config.encoders[self._name], VectorsConfig)
        return self._encoder(language if is_imported else "")

    def _load(self, language: str) -> Encoder:
        return lazy_encoder(self._workspace, self._name).load(language)


def _keys(place: EmbeddingStore, *, states: bool) -> frozenset[str]:
    keys = place.keys(VECTORS)
    return frozenset(keys & place.keys(STATES) if states else keys)


def _rows(
    tables: Sequence[VectorTable] | Sequence[StateTable], where: Sequence[np.ndarray], keys: np.ndarray
) -> torch.Tensor:
    """Row of each key in the tables, one after the other; `where` says which keys a table has."""
    rows, start = np.empty(len(keys), dtype=np.int64), 0
    for table, has in zip(tables, where, strict=True):
        rows[has] = start + table.rows(keys[has].tolist())
        start += len(table.keys)
    return torch.from_numpy(rows)

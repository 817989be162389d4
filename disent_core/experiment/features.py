"""Look up or compute the features that a frozen encoder gives for texts."""

from collections.abc import Sequence
from functools import cache

from disent_core.embeddings.arrays import StateTable, VectorTable
from disent_core.embeddings.in_memory import encoded_tables
from disent_core.embeddings.store import STATES, VECTORS, EmbeddingStore
from disent_core.encoders.config import VectorsConfig
from disent_core.encoders.contract import Encoder
from disent_core.experiment.embeddings import lazy_encoder, store
from disent_core.experiment.workspace import Workspace
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

        Raises:
            EncoderError: if a text can't be encoded, or the model can't be loaded.
            TableError: if a stored embedding is damaged.
        """
        keys = text_keys(texts)
        stored_keys, tables = self._stored(language)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in stored_keys}
        parts = [tables] if tables is not None and len(missing) < len(set(keys)) else []
        if missing:
            parts.append(encoded_tables(self._encoder_of(language), missing, states=self._states))
        return text_features(keys, *parts, language=language, texts=list(texts))

    def _open(self, language: str) -> tuple[frozenset[str], tuple[VectorTable, StateTable | None] | None]:
        """Keys of the texts whose features are all stored, and the tables that have them; None if there are none."""
        if not language:
            return frozenset(), None
        embedding_store = store(self._workspace, self._name, language)
        keys = _keys(embedding_store, states=self._states)
        if not keys:
            return keys, None
        return keys, (embedding_store.open_vectors(), embedding_store.open_states() if self._states else None)

    def _encoder_of(self, language: str) -> Encoder:
        """The encoder of a language: a model serves all languages, imported vectors have files for each."""
        is_imported = isinstance(self._workspace.config.encoders[self._name], VectorsConfig)
        return self._encoder(language if is_imported else "")

    def _load(self, language: str) -> Encoder:
        return lazy_encoder(self._workspace, self._name).load(language)


def _keys(embedding_store: EmbeddingStore, *, states: bool) -> frozenset[str]:
    keys = embedding_store.keys(VECTORS)
    return frozenset(keys & embedding_store.keys(STATES) if states else keys)

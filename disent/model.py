"""Load a trained head and embed texts with it, without the run that trained it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import numpy as np

    from disent_core.encoders.contract import Device
    from disent_core.experiment.saved_heads import SavedHead
    from disent_core.export.folder import Exported

_BLOCK_TEXTS = 4_096
"""Texts that are encoded at once, which bounds the memory of their token states."""


def load(
    path: str | Path, *, seed: int | None = None, device: "Device" = "auto", encoder: str | Path | None = None
) -> "Model":
    """Load a trained head together with its encoder.

    Args:
        path: file of the head, `data/heads/ENCODER/METHOD/PAIR.safetensors`.
        seed: of the training, one of `Model.seeds`; None: the first. Seeds are never averaged: their spaces differ.
        device: `cpu`, `cuda`, or `auto` for a GPU where there is one.
        encoder: folder of its encoder, if that has moved.

    Raises:
        ValueError: if the head has no such seed, or tags the slots of sentences instead of embedding them.
        TrainingError: if there is no head there, or it does not say what encoder it has.
        EncoderError: if its encoder is not there, or is not the one that it was trained on.
    """
    from disent_core.experiment.saved_heads import open_head

    head = open_head(Path(path).expanduser(), device=device, encoder=None if encoder is None else Path(encoder))
    return Model(head, seed)


class Model:
    """A head and its encoder: texts in, embeddings out. `load` returns one.

    Attributes:
        embeddings: names of the embeddings that it has, such as `meaning`, `template` and `residual`.
        languages: languages that `encode` has to be told of; None if a text's language does not matter.
        seeds: training seeds; empty if the method is deterministic.
        seed: the one in use.
        description: what was trained, on what, with what settings.
        fingerprint: of the weights.
    """

    def __init__(self, head: "SavedHead", seed: int | None = None) -> None:
        if head.method.labels:
            raise ValueError(f"{head.method.name} tags the slots of sentences and does not embed them")
        self._head = head
        self.embeddings: tuple[str, ...] = head.method.embeddings
        self.seeds: tuple[int, ...] = tuple(head.description["seeds"]) if head.method.is_seeded else ()
        if seed is not None and seed not in self.seeds:
            raise ValueError(f"this head was not trained with seed {seed}; choose one of {list(self.seeds)}")
        self.seed: int | None = self.seeds[0] if seed is None and self.seeds else seed
        languages = head.trained.languages
        self.languages: tuple[str, ...] | None = None if languages is None else tuple(languages)
        self.description: Mapping[str, Any] = head.description
        self.fingerprint: str = head.content

    def __repr__(self) -> str:
        name, encoder, pair = (self.description[key] for key in ("name", "encoder", "trained_on"))
        return f"Model({name!r} on {encoder!r}, {pair!r}, embeddings={list(self.embeddings)})"

    @overload
    def encode(self, texts: str, embedding: str | None = ..., *, language: str | None = ...) -> "np.ndarray": ...
    @overload
    def encode(
        self, texts: Sequence[str], embedding: str | None = ..., *, language: str | None = ...
    ) -> "np.ndarray": ...
    def encode(
        self, texts: str | Sequence[str], embedding: str | None = None, *, language: str | None = None
    ) -> "np.ndarray":
        """Embed texts.

        Args:
            texts: one text, or a list.
            embedding: one of `embeddings`; None: the meaning, or the only one that there is.
            language: of all of them; only a head that has `languages` needs it.

        Returns:
            float32 [dim] for one text, [texts, dim] for a list, in order.

        Raises:
            ValueError: if the head has no such embedding, needs a language or has not this one.
            EncoderError: if a text can't be encoded.
        """
        name = self._embedding(embedding)
        matrix = self.encode_all([texts] if isinstance(texts, str) else texts, language=language)[name]
        return matrix[0] if isinstance(texts, str) else matrix

    def encode_all(self, texts: Sequence[str], *, language: str | None = None) -> "dict[str, np.ndarray]":
        """Embed texts by every embedding; the encoder runs once.

        Args:
            texts: at least one.
            language: as in `encode`.

        Returns:
            For each name of `embeddings` a matrix, float32 [texts, dim].

        Raises:
            ValueError: if there are no texts, or as in `encode`.
            EncoderError: if a text can't be encoded.
        """
        import numpy as np

        from disent_core.training.features import features_of
        from disent_core.training.needs import Need

        if isinstance(texts, str) or not len(texts):
            raise ValueError("texts must be a list of at least one text")
        spoken = self._language(language)
        states = Need.TOKEN_STATES in self._head.method.needs_of(self._head.settings)
        blocks = []
        for start in range(0, len(texts), _BLOCK_TEXTS):
            features = features_of(self._head.encoder, texts[start : start + _BLOCK_TEXTS], spoken, states=states)
            blocks.append(self._head.trained.embed(features, self.seed))  # pyright: ignore[reportAttributeAccessIssue]
        return {name: np.concatenate([block[name] for block in blocks]).astype(np.float32) for name in self.embeddings}

    def similarity(self, left: "np.ndarray", right: "np.ndarray") -> "np.ndarray":
        """Cosine of every row of `left` [n, dim] with every row of `right` [m, dim]: float32 [n, m]."""
        import numpy as np

        lengths = [np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12) for rows in (left, right)]
        return (left / lengths[0]) @ (right / lengths[1]).T

    def save(self, folder: str | Path, embeddings: Sequence[str] | None = None) -> "Exported":
        """Write the head with its encoder as a folder that `SentenceTransformer(folder)` loads without disent.

        Args:
            folder: a folder that does not exist yet.
            embeddings: which of its embeddings; None: all that modules of sentence-transformers compute exactly.

        Returns:
            What was written; `routes.steps` has the names that `encode(texts, task=...)` takes.

        Raises:
            TrainingError: if the head, or one of the embeddings, can't be exported, or the folder exists.
            ValueError: if the head has no such embedding.
            ModuleNotFoundError: if sentence-transformers is not installed: `pip install 'disent[export]'`.
        """
        from disent_core.export.folder import export_head
        from disent_core.export.measured import measured_of

        head = self._head
        measured = measured_of(head, self.seed)
        return export_head(head, Path(folder).expanduser(), seed=self.seed, embeddings=embeddings, measured=measured)

    def _embedding(self, name: str | None) -> str:
        if name is None:
            return "meaning" if "meaning" in self.embeddings else self.embeddings[0]
        if name not in self.embeddings:
            raise ValueError(f"this head has no embedding {name!r}; choose one of {', '.join(self.embeddings)}")
        return name

    def _language(self, language: str | None) -> str:
        if self.languages is None:
            return language or ""
        if language not in self.languages:
            raise ValueError(f"name the language of the texts: language= one of {', '.join(self.languages)}")
        return language

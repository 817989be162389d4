"""Define what an encoder is to the rest of the library: texts in, sentence vectors and token states out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from disent_core.settings import Settings

FloatName = Literal["float16", "float32"]
Device = Literal["auto", "cpu", "cuda"]
Pooling = Literal["cls", "mean", "pooler", "cls_dense_norm"]
"""How token states become a sentence vector, see `config.HuggingFaceConfig`."""
Layers = int | tuple[int, ...]
"""The layer whose states are read, or several, side by side; see `config.HuggingFaceConfig`."""


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Settings):
    """The settings that encoders of every kind have.

    Attributes:
        name: name of the encoder in tables and metrics.
        lacks: needs of methods (`training.needs.Need`) that this kind cannot serve, each with its name in messages.
    """

    lacks: ClassVar[Mapping[str, str]] = {}

    name: str

    def resolved(self, folder: Path) -> "EncoderConfig":
        """Return the settings with every path on disk, which is relative to the folder, made absolute."""
        return self


def absolute(path: str, folder: Path) -> str:
    """Return a path of a configuration, relative to the configuration's folder, as an absolute path."""
    return str((folder / Path(path).expanduser()).resolve())


@dataclass(frozen=True)
class EncodedBatch:
    """Some of the texts, in the order in which the encoder computes them.

    `indices` are positions in the sequence given to `encode`. `states` holds the token states of these texts
    one after another, `lengths[i]` rows for text i; special tokens are included, padding and hidden subwords never.
    `truncated` counts the texts that were longer than the encoder reads.
    """

    indices: Int[np.ndarray, " texts"]
    vectors: Float[np.ndarray, "texts dim"]
    states: Float[np.ndarray, "tokens dim"] | None
    lengths: Int[np.ndarray, " texts"]
    truncated: int = 0


@dataclass(frozen=True)
class EncoderFiles:
    """A frozen encoder on disk, for a method that fine-tunes it: its model and how states become a sentence vector."""

    folder: Path
    pooling: Pooling
    layer: Layers
    max_length: int
    fingerprint: str


@runtime_checkable
class Encoder(Protocol):
    """A frozen encoder.

    `fingerprint` covers everything that its output depends on: weights, tokeniser, layer, pooling, length, data types
    and code. `vector_dtype` and `states_dtype` are the types in which vectors and states are stored.
    """

    name: str
    dim: int
    fingerprint: str
    vector_dtype: FloatName
    states_dtype: FloatName

    def encode(self, texts: Sequence[str], *, states: bool) -> Iterator[EncodedBatch]:
        """Encode every text once, in batches; token states only if `states` is true.

        Raises:
            EncoderError: if a text can't be encoded, or its vector is not finite.
        """
        ...

"""Hashed words without a model: the encoder for methods that read only texts, and a baseline of plain words.

A text is the sum over its distinct words, and a word the sum of the random rows that it and its n-grams are hashed to.
Texts are near each other if they share words or parts of words; nothing is trained, nothing is downloaded. The signs of
the rows are added up as whole numbers, so vectors are the same to the bit on every machine. Masks are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float32

from disent_core.encoders.contract import Device, EncodedBatch, EncoderConfig, FloatName, StatesName
from disent_core.encoders.tokens import parse_marks
from disent_core.errors import EncoderError
from disent_core.registry import imported
from disent_core.settings import Seed, Width
from disent_core.storage.tables import fingerprint
from disent_core.text import MARKERS, MASK, spliced

CODE_VERSION = "1"  # changes with every change of this code that changes vectors

_HASHES = "disent_core.methods.modules.word_rows"  # in a higher layer, so imported when texts are encoded
_BATCH_TEXTS = 256
_BATCH_WORDS = 1_024  # new words whose rows (about 15 each) are made at once
_CACHED_NUMBERS = 1 << 24  # float32 numbers in the word vectors cached within a call, 64 MiB


@dataclass(frozen=True, kw_only=True)
class WordsConfig(EncoderConfig):
    """Width and seed of the random vectors of words.

    Attributes:
        dim: width of the vectors.
        seed: random seed of the rows.
        vector_dtype: number format of stored sentence vectors.
    """

    lacks: ClassVar[Mapping[str, str]] = {"token_states": "token states", "encoder": "a model to tune"}

    dim: Width = 256
    seed: Seed = 0
    vector_dtype: FloatName = "float32"

    def fingerprint(self, folder: Path) -> str:
        return fingerprint("words", CODE_VERSION, self.dim, self.seed, self.vector_dtype)

    def load(self, folder: Path, language: str, device: Device) -> "WordsEncoder":
        return WordsEncoder(self, self.fingerprint(folder))

    def has_seen(self, config: Any) -> str:
        return "nothing"


class WordsEncoder:
    """An `Encoder` of texts in any language."""

    states_dtype: StatesName = "float32"

    def __init__(self, config: WordsConfig, fingerprint: str) -> None:
        self.name, self.dim, self.fingerprint = config.name, config.dim, fingerprint
        self.vector_dtype: FloatName = config.vector_dtype
        self._seed = config.seed
        self._words_of, self._rows_of_word, self._random_bits = (
            imported(f"{_HASHES}:{name}") for name in ("words_of", "rows_of_word", "random_bits")
        )

    def encode(self, texts: Sequence[str], *, states: bool) -> Iterator[EncodedBatch]:
        if states and texts:
            raise EncoderError(f"encoder {self.name!r} is hashed words, which have no token states")
        vectors: dict[str, np.ndarray] = {}
        scale = np.float32(self.dim**-0.5)
        for start in range(0, len(texts), _BATCH_TEXTS):
            if len(vectors) > _CACHED_NUMBERS // self.dim:
                vectors.clear()
            bags = [list(self._words(text)) for text in texts[start : start + _BATCH_TEXTS]]
            words = list(chain.from_iterable(bags))
            new = [word for word in dict.fromkeys(words) if word not in vectors]
            for first in range(0, len(new), _BATCH_WORDS):
                block = new[first : first + _BATCH_WORDS]
                vectors.update(zip(block, self._made(block), strict=True))
            sums = _sums(np.stack([vectors[word] for word in words]), list(map(len, bags))) * scale
            yield EncodedBatch(np.arange(start, start + len(bags)), sums, None, np.zeros(len(bags), np.int64))

    def _words(self, text: str) -> Iterable[str]:
        """Return the distinct unmasked words of a text; a text without any consists only of the mask."""
        if MASK in text or not MARKERS.isdisjoint(text):
            clean, masked, hidden = parse_marks(text, " ")
            text = spliced(clean, [(span, " ") for span in sorted(masked + hidden)])
        return dict.fromkeys(self._words_of(text)) or (MASK,)

    def _made(self, words: Sequence[str]) -> Float32[np.ndarray, "words dim"]:
        """Return the sums of the signs of each word's rows, which are whole numbers."""
        rows = [self._rows_of_word(word) for word in words]
        distinct, order = np.unique(np.array(list(chain.from_iterable(rows)), np.int64), return_inverse=True)
        signs = self._random_bits(distinct, self.dim, self._seed)[:, : self.dim] * np.float32(2) - 1
        return _sums(signs[order], list(map(len, rows)))


def _sums(vectors: Float32[np.ndarray, "rows dim"], lengths: Sequence[int]) -> Float32[np.ndarray, "sums dim"]:
    """Return the sums of consecutive runs of vectors, whose lengths are at least 1."""
    return np.add.reduceat(vectors, np.cumsum([0, *lengths[:-1]]), axis=0)

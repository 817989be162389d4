"""A model whose vectors are given, as `disent.Model` offers them."""

import zlib

import numpy as np

DIM = 8


def vector(text: str, embedding: str, language: str | None = None) -> np.ndarray:
    """A normal vector that depends on text, embedding and language alone."""
    return np.random.default_rng(zlib.crc32(f"{text} {embedding} {language}".encode())).normal(size=DIM)


class GivenModel:
    """Embeds by `vector`; records the language of each call."""

    def __init__(self, languages: tuple[str, ...] | None = None, seed: int | None = 0) -> None:
        self.embeddings = ("meaning", "language")
        self.languages, self.seeds, self.seed = languages, (0, 1), seed
        self.description = {"name": "dream", "encoder": "tiny", "trained_on": "en-de"}
        self.fingerprint = "0123456789abcdef"
        self.calls: list[tuple[str | None, list[str]]] = []

    def encode(self, texts, embedding=None, *, language=None):
        if self.languages and language not in self.languages:
            raise ValueError(f"name the language of the texts: language= one of {', '.join(self.languages)}")
        self.calls.append((language, list(texts)))
        return np.stack([vector(text, embedding, language) for text in texts]).astype(np.float32)

    def matrices(self, problem, embedding: str) -> dict[str, np.ndarray]:
        has_languages = self.languages is not None
        return {
            role: self.encode(texts.texts, embedding, language=texts.language if has_languages else None)
            for role, texts in problem.texts.items()
        }

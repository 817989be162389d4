"""A BERT of random weights with a WordPiece vocabulary, and translations of its words into two invented languages."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pyarrow as pa

from disent_core.encoders.kinds.distilled import DistilledConfig
from disent_core.encoders.kinds.distilled.pairs import Material, Translations
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import HuggingFaceEncoder, load
from disent_core.storage.text_columns import TextColumn
from tests.core.tiny_encoder import save_bert

WORDS = ["wake", "me", "up", "at", "nine", "ten", "noon", "call", "mum", "dad", "don", "'", "t", ".", "##s"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789"]
ENGLISH = ["wake", "call", "me", "mum", "dad", "up", "at", "nine", "ten", "noon", "don't"]
GERMAN = ["weck", "ruf", "mich", "mama", "papa", "auf", "um", "neun", "zehn", "mittag", "nicht"]
OTHER = ["ゐ", "よぶ", "わし", "はは", "ちち", "へ", "に", "九", "十", "午", "いな"]
FOREIGN = {"de": dict(zip(ENGLISH, GERMAN, strict=True)), "xx": dict(zip(ENGLISH, OTHER, strict=True))}
_WHO = ("me", "mum", "dad")
PIVOTS = [
    *(f"{verb} {who} up at {time}." for verb, who, time in product(("wake", "call"), _WHO, ("nine", "ten", "noon"))),
    *(f"don't {verb} {who}." for verb, who in product(("wake", "call"), _WHO)),
]


def save_teacher(folder: Path, *, words: list[str] | None = None) -> Path:
    """Two layers of 16 dimensions; every letter is a piece, at the beginning of a word and inside it."""
    pieces = dict.fromkeys([*(words or WORDS), *LETTERS, *(f"##{letter}" for letter in LETTERS)])
    kind = {"pooler": False, "subwords": True, "lowercase": True, "initializer_range": 0.1}
    save_bert(folder, pieces, dim=16, heads=2, longest=32, **kind)
    return folder


def loaded(folder: Path) -> HuggingFaceEncoder:
    settings = {"pooling": "mean", "max_length": 32, "states_dtype": "float32"}
    return load(HuggingFaceConfig(name="multi", path=str(folder), **settings), "cpu")


def translated(text: str, language: str) -> str:
    return " ".join(FOREIGN[language].get(word, word) for word in text.rstrip(".").split())


def column(texts: Iterable[str]) -> TextColumn:
    return TextColumn.whole(pa.array(texts, pa.string()))


def translations(language: str, pivots: Iterable[str] = PIVOTS, corpus: str = "bitext") -> Translations:
    foreign = column(translated(text, language) for text in pivots)
    return Translations(corpus, language, column(pivots), foreign)


def material() -> Material:
    """Two languages; every fourth sentence is held out."""
    kept = [text for index, text in enumerate(PIVOTS) if index % 4]
    others = PIVOTS[::4]
    return Material(
        training=[translations(language, kept) for language in FOREIGN],
        held_out=[translations(language, others) for language in FOREIGN],
    )


def config(**changed) -> DistilledConfig:
    small = {"name": "multi", "teacher": "tiny", "corpora": ("bitext",), "max_length": 32, "vocab_size": 120}
    rest = {"batch_size": 8, "bank": 16, "validate_steps": 5, "max_steps": 10, "warmup_steps": 2}
    return DistilledConfig(**(small | rest | {"precision": "float32"} | changed))

"""The parts of a teacher that a multilingual encoder is made from: its blocks, and rows and cutting of its words."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from disent_core.encoders.checkpoint import load_model, load_tokeniser
from disent_core.encoders.kinds.distilled.alignment import Pieces
from disent_core.encoders.tokens import ids_of
from disent_core.errors import EncoderError, located

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ROLES = ("pad", "cls", "sep", "unk", "mask")
"""Special tokens that a BERT has, in the order in which they begin the new vocabulary."""


@dataclass(frozen=True)
class Teacher:
    """A BERT with a WordPiece vocabulary.

    Attributes:
        model: its blocks and rows, a `BertModel`.
        tokeniser: cuts its words; it adds no special tokens.
        special: its special tokens, in the order of `ROLES`.
        lowers_case: whether it reads capitals as small letters.
    """

    model: Any
    tokeniser: "Tokenizer"
    special: tuple[str, ...]
    lowers_case: bool
    vocabulary: dict[str, int] = field(repr=False)

    @property
    def rows(self) -> Float[np.ndarray, "pieces dim"]:
        """The row of each piece of its vocabulary."""
        return self.model.get_input_embeddings().weight.detach().numpy()

    def cut(self, texts: Iterable[list[str]]) -> Pieces:
        """As `cut`, by its tokeniser."""
        return cut(self.tokeniser, texts)


def cut(tokeniser: "Tokenizer", texts: Iterable[list[str]]) -> Pieces:
    """Cut texts, which come in blocks, into pieces; special ones are not added."""
    return Pieces(*ids_of(tokeniser, texts, add_special_tokens=False))


def load_teacher(folder: Path) -> Teacher:
    """Load a teacher."""
    from tokenizers import Tokenizer
    from transformers import BertModel

    remedy = "Name a teacher with a BERT body and its own vocabulary, such as all-MiniLM-L6-v2"
    model, tokeniser = load_model(folder, pooling="mean"), load_tokeniser(folder)
    if not isinstance(model, BertModel):
        raise EncoderError(located(folder, None, f"a {type(model).__name__} can't be a teacher", remedy))
    backend = json.loads(tokeniser.backend_tokenizer.to_str())
    if (kind := backend["model"].get("type")) != "WordPiece":
        raise EncoderError(located(folder, None, f"a teacher with a {kind} vocabulary can't be aligned", remedy))
    special = tuple(getattr(tokeniser, f"{role}_token") for role in ROLES)
    if lacking := [role for role, token in zip(ROLES, special, strict=True) if token is None]:
        raise EncoderError(located(folder, None, f"this teacher has no special token for {lacking}", remedy))
    cutter = Tokenizer.from_str(tokeniser.backend_tokenizer.to_str())
    cutter.no_padding()
    cutter.no_truncation()
    return Teacher(
        model=model,
        tokeniser=cutter,
        special=special,
        lowers_case=bool((backend["normalizer"] or {}).get("lowercase")),
        vocabulary=cutter.get_vocab(),
    )

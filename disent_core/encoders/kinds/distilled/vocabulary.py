"""The vocabulary of a teacher, and one of all languages: Unigram pieces of their words, beside its whole words.

Kudo 2018, Subword Regularization, https://arxiv.org/abs/1804.10959, in the implementation of `tokenizers`.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
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
START = "▁"  # begins the first piece of every word. A word ends at white space and at punctuation, which is a word too
_WHOLE_WORD = re.compile(r"[a-zA-Z0-9]+|[!-/:-@\[-`{-~]")
_LONGEST_PIECE, _SHRINKING, _SUB_ITERATIONS = 12, 0.75, 2
_COVERAGE_STEP = 1e-4
_DIGITS = 6

Scores = dict[str, float]  # log-probability of each piece


@dataclass(frozen=True)
class Teacher:
    """A BERT with a WordPiece vocabulary."""

    model: Any  # its blocks and rows, a `BertModel`
    tokeniser: "Tokenizer"  # cuts its words; it adds no special tokens
    special: tuple[str, ...]  # its special tokens, in the order of `ROLES`
    lowers_case: bool  # whether it reads capitals as small letters
    vocabulary: dict[str, int] = field(repr=False)

    @property
    def rows(self) -> Float[np.ndarray, "pieces dim"]:
        """Return the row of each piece of its vocabulary."""
        return self.model.get_input_embeddings().weight.detach().numpy()

    def cut(self, texts: Iterable[list[str]]) -> Pieces:
        """Cut texts, which come in blocks, by its tokeniser."""
        return cut(self.tokeniser, texts)


def cut(tokeniser: "Tokenizer", texts: Iterable[list[str]]) -> Pieces:
    """Cut texts, which come in blocks, into pieces; special ones are not added."""
    return Pieces(*ids_of(tokeniser, texts, add_special_tokens=False))


def load_teacher(folder: Path) -> Teacher:
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


def train_vocabulary(
    pivots: Iterable[str], foreign: Iterable[str], teacher: Teacher, *, size: int, keep_words: bool
) -> "Tokenizer":
    """Return a tokeniser of all languages.

    It depends on the texts alone, not on threads: what the library adds up in another order every time is rounded.

    Args:
        pivots: distinct texts in the teacher's language.
        foreign: distinct texts in the other languages.
        teacher: its special tokens begin the vocabulary.
        size: largest number of Unigram pieces, special tokens included.
        keep_words: add all whole words of the teacher's vocabulary, each with its frequency in `pivots`.
    """
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

    splitter = Tokenizer(models.Unigram())
    cleaned = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=teacher.lowers_case
    )
    splitter.normalizer = normalizers.Sequence([normalizers.NFKC(), cleaned])
    splitter.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = _count_words(splitter, pivots)
    every_word = words + _count_words(splitter, foreign)
    scores = _unigram([word for word in every_word if not _is_symbol(word)], every_word, size - len(ROLES))
    added = {word: words[word] for word in every_word if _is_symbol(word)}
    if keep_words:
        added |= {word: words[word] for word in teacher.vocabulary if _WHOLE_WORD.fullmatch(word)}
    total = max(words.total(), 1)
    scores |= {
        START + word: round(math.log((count + 0.5) / total), _DIGITS)
        for word, count in sorted(added.items())
        if START + word not in scores
    }
    special = [(token, 0.0) for token in teacher.special]
    tokeniser = Tokenizer(models.Unigram([*special, *scores.items()], unk_id=ROLES.index("unk")))
    tokeniser.normalizer = splitter.normalizer
    # As for the teacher, a word begins after punctuation too: `don't` is `▁don ▁' ▁t`.
    starts = pre_tokenizers.Metaspace(replacement=START, prepend_scheme="always", split=False)
    tokeniser.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), starts])
    tokeniser.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in teacher.special])
    start, end = (teacher.special[ROLES.index(role)] for role in ("cls", "sep"))
    tokeniser.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B {end}",
        special_tokens=[(token, teacher.special.index(token)) for token in (start, end)],
    )
    return tokeniser


def _count_words(splitter: "Tokenizer", texts: Iterable[str]) -> Counter[str]:
    cut = splitter.pre_tokenizer.pre_tokenize_str
    return Counter(word for text in texts for word, _ in cut(splitter.normalizer.normalize_str(text)))


def _is_symbol(word: str) -> bool:
    return len(word) == 1 and not word.isalnum()


def _unigram(words: Sequence[str], counts: Counter[str], size: int) -> Scores:
    """Return pieces of the words, each with its score, the best first."""
    from tokenizers import Tokenizer, models, trainers
    from tokenizers.pre_tokenizers import Metaspace

    tokeniser = Tokenizer(models.Unigram())
    tokeniser.pre_tokenizer = Metaspace(replacement=START, prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        max_piece_length=_LONGEST_PIECE,
        shrinking_factor=_SHRINKING,
        n_sub_iterations=_SUB_ITERATIONS,
        show_progress=False,
    )
    tokeniser.train_from_iterator((" ".join([word] * counts[word]) for word in sorted(words)), trainer)
    return _repeatable(dict(json.loads(tokeniser.to_str())["model"]["vocab"]))


def _repeatable(scores: Scores) -> Scores:
    """Remove from the scores of a training what differs from run to run.

    The trainer adds characters that no piece has, in the order of a hash table, with scores that rise by 1e-4 from the
    least. They all get the least. The last digits of the other scores depend on the order in which words are added up.
    """
    least = min(scores.values(), default=0.0)
    characters = [piece for piece in scores if len(piece) == 1]

    def canonical(piece: str, score: float) -> float:
        steps = (score - least) / _COVERAGE_STEP
        was_added = len(piece) == 1 and steps < len(characters) and abs(steps - round(steps)) < 1e-3
        return round(least if was_added else score, _DIGITS)

    rounded = {piece: canonical(piece, score) for piece, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], item[0])))

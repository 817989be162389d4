"""Train a vocabulary of all languages: Unigram pieces of their words, beside the teacher's own whole words.

Kudo 2018, Subword Regularization, https://arxiv.org/abs/1804.10959, in the implementation of `tokenizers`.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from disent_core.encoders.kinds.distilled.teacher import ROLES, Teacher

if TYPE_CHECKING:
    from tokenizers import Tokenizer, normalizers

START = "▁"
"""Begins the first piece of every word. A word ends at white space and at punctuation, which is a word too."""
_WHOLE_WORD = re.compile(r"[a-zA-Z0-9]+|[!-/:-@\[-`{-~]")
_LONGEST_PIECE, _SHRINKING, _SUB_ITERATIONS = 12, 0.75, 2
_COVERAGE_STEP = 1e-4
_DIGITS = 6

Scores = dict[str, float]
"""Log-probability of each piece."""


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
    from tokenizers import AddedToken, Tokenizer, models, processors

    splitter = _splitter(teacher)
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
    tokeniser.normalizer, tokeniser.pre_tokenizer = splitter.normalizer, _word_starts()
    tokeniser.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in teacher.special])
    start, end = (teacher.special[ROLES.index(role)] for role in ("cls", "sep"))
    tokeniser.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B {end}",
        special_tokens=[(token, teacher.special.index(token)) for token in (start, end)],
    )
    return tokeniser


def _normaliser(teacher: Teacher) -> "normalizers.Normalizer":
    from tokenizers import normalizers

    cleaned = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=teacher.lowers_case
    )
    return normalizers.Sequence([normalizers.NFKC(), cleaned])


def _word_starts() -> object:
    """As the teacher, a word begins after punctuation too: `don't` is `▁don ▁' ▁t`."""
    from tokenizers import pre_tokenizers

    starts = pre_tokenizers.Metaspace(replacement=START, prepend_scheme="always", split=False)
    return pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), starts])


def _splitter(teacher: Teacher) -> "Tokenizer":
    from tokenizers import Tokenizer, models, pre_tokenizers

    splitter = Tokenizer(models.Unigram())
    splitter.normalizer = _normaliser(teacher)
    splitter.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return splitter


def _count_words(splitter: "Tokenizer", texts: Iterable[str]) -> Counter[str]:
    cut = splitter.pre_tokenizer.pre_tokenize_str
    return Counter(word for text in texts for word, _ in cut(splitter.normalizer.normalize_str(text)))


def _is_symbol(word: str) -> bool:
    return len(word) == 1 and not word.isalnum()


def _unigram(words: Sequence[str], counts: Counter[str], size: int) -> Scores:
    """Pieces of the words, each with its score, the best first."""
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

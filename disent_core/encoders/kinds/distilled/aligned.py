"""Make the aligned encoder: the teacher's blocks under a vocabulary of all languages, without training.

The vocabulary has the Unigram pieces of the words of these languages (Kudo 2018, Subword Regularization,
https://arxiv.org/abs/1804.10959, in the implementation of `tokenizers`) beside the whole words of the teacher.

The rows of its pieces are averages of the teacher's, by word alignment with IBM model 1 (Brown et al. 1993, The
Mathematics of Statistical Machine Translation, https://aclanthology.org/J93-2003).
"""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int, Int32

from disent_core.encoders.checkpoint import load_model, load_tokeniser, quiet_transformers, save_model
from disent_core.encoders.kinds.distilled import DistilledConfig
from disent_core.encoders.kinds.distilled.pairs import Translations, record_file
from disent_core.encoders.tokens import ids_of
from disent_core.errors import EncoderError, commas, located
from disent_core.progress import Progress
from disent_core.storage.files import remove_path
from disent_core.storage.results import open_result, write_result
from disent_core.storage.text_columns import BLOCK, blocks, joined, numbered

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)

LEAST_PROBABILITY = 0.05
"""Least probability of a teacher's piece, given a foreign piece, to contribute to the foreign piece's row."""


# --- word alignment ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """The pieces of texts, concatenated, and the number of pieces of each text."""

    ids: Int[np.ndarray, " pieces"]
    lengths: Int[np.ndarray, " texts"]

    def blocks(self) -> Iterator["Pieces"]:
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        for start in range(0, len(self.lengths), BLOCK):
            lengths = self.lengths[start : start + BLOCK]
            yield Pieces(self.ids[ends[start] : ends[start + len(lengths)]], lengths)


@dataclass(frozen=True)
class Alignment:
    """For some pairs of a new piece and a teacher's piece: the probability of the latter given the former, and the
    expected number of links between them."""

    new: Int[np.ndarray, " links"]
    teacher: Int[np.ndarray, " links"]
    probability: Float[np.ndarray, " links"]
    count: Float[np.ndarray, " links"]


def align(pivots: Pieces, foreign: Pieces, *, iterations: int) -> Alignment:
    """Learn p(teacher's piece | new piece) from sentence pairs by expectation maximisation.

    Every token of a pivot is explained by one of the foreign sentence's distinct pieces, or by none (NULL).
    Probabilities are uniform at first.
    """
    width = int(pivots.ids.max(initial=0)) + 1
    blocks = [_links(*sides, width) for sides in zip(pivots.blocks(), foreign.blocks(), strict=True)]
    pairs = np.unique(np.concatenate([np.zeros(0, np.int64), *(block.pairs for block in blocks)]))
    rows_of_blocks = [np.searchsorted(pairs, block.pairs) for block in blocks]
    new_of_pair, teacher_of_pair = pairs // width - 1, pairs % width
    probability, count = np.ones(len(pairs)), np.ones(len(pairs))
    for _ in range(iterations):
        count = np.zeros(len(pairs))
        for block, rows in zip(blocks, rows_of_blocks, strict=True):
            token = np.repeat(np.arange(len(block.fans)), block.fans)
            weight = probability[rows][block.pair]
            share = weight / np.bincount(token, weight)[token]
            np.add.at(count, rows[block.pair], share)  # sequentially, so that no bit depends on the blocks
        total = np.bincount(new_of_pair + 1, count)
        probability = count / total[new_of_pair + 1]
    kept = (new_of_pair >= 0) & (probability > LEAST_PROBABILITY)
    return Alignment(new_of_pair[kept], teacher_of_pair[kept], probability[kept], count[kept])


@dataclass(frozen=True)
class _Links:
    """All possible links in some sentence pairs: those of the pivots' first token, of the second, and so on."""

    fans: Int32[np.ndarray, " tokens"]  # number of links of each token
    pair: Int32[np.ndarray, " links"]  # of each link, its row of `pairs`
    # Distinct pairs of a new piece (0 for NULL, otherwise its number and 1) and one of the teacher's, sorted. Each is a
    # number: the former times the width of the teacher's vocabulary, and the latter.
    pairs: Int[np.ndarray, " pairs"]


def _links(pivots: Pieces, foreign: Pieces, width: int) -> _Links:
    sentences, size = np.arange(len(foreign.lengths)), int(foreign.ids.max(initial=0)) + 2
    candidates = np.concatenate([sentences * size, np.repeat(sentences, foreign.lengths) * size + foreign.ids + 1])
    of_sentence, new = np.divmod(np.unique(candidates), size)  # NULL and the distinct pieces of each sentence, sorted
    widths = np.bincount(of_sentence, minlength=len(sentences))
    fans = np.repeat(widths, pivots.lengths)
    first = np.repeat(np.cumsum(widths) - widths, pivots.lengths)
    links = np.arange(fans.sum()) + np.repeat(first - (np.cumsum(fans) - fans), fans)
    pairs, pair = np.unique(new[links] * width + np.repeat(pivots.ids, fans), return_inverse=True)
    return _Links(fans.astype(np.int32), pair.astype(np.int32), pairs)


def aligned_rows(
    teacher_rows: Float[np.ndarray, "pivot_pieces dim"],
    copied: Sequence[Sequence[int]],
    pivot_share: Float[np.ndarray, " pieces"],
    alignments: Sequence[Alignment],
) -> Float[np.ndarray, "pieces dim"]:
    """Return the rows of the new vocabulary.

    A piece's row mixes the mean of the teacher's pieces that spell it (`copied`) and the mean of the teacher's pieces
    that it is aligned with. The weight of the former, `pivot_share`, is the share of its occurrences in pivots.
    """
    from scipy.sparse import csr_array

    spelt = np.stack([teacher_rows[list(pieces)].mean(axis=0, dtype=np.float64) for pieces in copied])
    new, teacher, probability, count = (
        np.concatenate([vars(alignment)[name] for alignment in alignments] or [np.zeros(0)])
        for name in ("new", "teacher", "probability", "count")
    )
    new, teacher = new.astype(np.int64), teacher.astype(np.int64)
    weight = count * np.sqrt(probability)
    total = np.bincount(new, weight, minlength=len(copied))
    is_aligned = total > 0
    # Sums by new piece, in float64: a sparse matrix [new pieces, links] times the rows that the links name.
    sums = csr_array((weight, (new, np.arange(len(new)))), shape=(len(copied), len(new)))
    mean = (sums @ teacher_rows[teacher].astype(np.float64)) / np.where(is_aligned, total, 1)[:, None]
    norms = np.linalg.norm(teacher_rows, axis=1)[teacher]
    typical = np.bincount(new, weight * norms, minlength=len(copied)) / np.where(is_aligned, total, 1)
    # A mean of rows with different directions is short; lengthen it half way to the norm of its parts.
    length = np.linalg.norm(mean, axis=1)
    mean *= ((length + typical) / 2 / np.where(length > 0, length, 1))[:, None]
    share = np.where(is_aligned, pivot_share, 1.0)[:, None]
    return (share * spelt + (1 - share) * mean).astype(np.float32)


# --- teacher and vocabulary -------------------------------------------------------------------------------

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
    lowers_case: bool  # whether it lower-cases texts
    vocabulary: dict[str, int] = field(repr=False)

    @property
    def rows(self) -> Float[np.ndarray, "pieces dim"]:
        return self.model.get_input_embeddings().weight.detach().numpy()


def cut(tokeniser: "Tokenizer", texts: Iterable[list[str]]) -> Pieces:
    """Split blocks of texts into pieces, without adding special pieces."""
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
        raise EncoderError(located(folder, None, f"this teacher has no special token for {commas(lacking)}", remedy))
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

    It depends only on the texts, not on threads: sums that the library adds up in varying order are rounded. The
    vocabulary begins with the `teacher`'s special tokens; `size` limits the Unigram pieces, special tokens included.
    `keep_words` adds all whole words of the teacher's vocabulary, with their frequencies in the `pivots`.
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
    # As in the teacher, a word also begins after punctuation: `don't` is `▁don ▁' ▁t`.
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
    """Return pieces of the words with their scores, best first."""
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
    """Remove run-to-run differences from the scores of a training.

    The trainer adds characters that no piece has, in hash table order, with scores that rise by 1e-4 from the least;
    here they all get the least. The last digits of the other scores depend on the order of summation over words.
    """
    least = min(scores.values(), default=0.0)
    characters = [piece for piece in scores if len(piece) == 1]

    def canonical(piece: str, score: float) -> float:
        steps = (score - least) / _COVERAGE_STEP
        was_added = len(piece) == 1 and steps < len(characters) and abs(steps - round(steps)) < 1e-3
        return round(least if was_added else score, _DIGITS)

    rounded = {piece: canonical(piece, score) for piece, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], item[0])))


# --- the encoder ------------------------------------------------------------------------------------------


def make_aligned(
    training: Sequence[Translations],
    config: DistilledConfig,
    teacher_folder: Path,
    folder: Path,
    record: Mapping[str, Any],
) -> None:
    """Write the aligned encoder, completely or not at all. An interrupted call keeps the vocabulary that it trained.

    `record` describes what it is made from; its `made_from` is a fingerprint of that.
    """
    from transformers import PreTrainedTokenizerFast

    if not any(map(len, training)):
        raise EncoderError(f"encoder {config.name!r}: its corpora have no pair to align. Name others in corpora")
    teacher = load_teacher(teacher_folder)
    work = folder.with_name(f".{folder.name}.work-{record['made_from'][:12]}")
    tokeniser = _vocabulary(training, config, teacher, work / "tokenizer.json")
    rows = _rows(training, config, teacher, tokeniser)
    model = teacher.model
    model.set_input_embeddings(torch.nn.Embedding(*rows.shape, padding_idx=0, _weight=torch.from_numpy(rows)))
    model.config.vocab_size, model.config.pad_token_id, model.config.name_or_path = len(rows), 0, ""
    roles = {f"{role}_token": token for role, token in zip(ROLES, teacher.special, strict=True)}
    length = model.config.max_position_embeddings
    with quiet_transformers():
        fast = PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=length, **roles)
    save_model(model, fast, folder, record_file(record))
    remove_path(work)


def _vocabulary(training: Sequence[Translations], config: DistilledConfig, teacher: Teacher, path: Path) -> "Tokenizer":
    from tokenizers import Tokenizer

    if open_result(path) is None:
        pivots, _ = numbered(joined(part.pivots for part in training))
        foreign, _ = numbered(joined(part.foreign for part in training))
        log.info("%s: learning a vocabulary from %d texts", config.name, len(pivots) + len(foreign))
        size, keep_words = config.vocab_size, config.keep_teacher_words
        trained = train_vocabulary(pivots, foreign, teacher, size=size, keep_words=keep_words)
        with write_result(path) as beside:
            trained.save(str(beside))
    return Tokenizer.from_file(str(path))


def _rows(
    training: Sequence[Translations], config: DistilledConfig, teacher: Teacher, tokeniser: "Tokenizer"
) -> Float[np.ndarray, "pieces dim"]:
    size = tokeniser.get_vocab_size()
    sentences, _ = numbered(joined(part.pivots for part in training))
    in_pivots, in_foreign = np.bincount(cut(tokeniser, blocks(sentences)).ids, minlength=size), np.zeros(size)
    progress, done, alignments = Progress(log, sum(map(len, training)), "pairs aligned", what=config.name), 0, []
    for language in dict.fromkeys(part.language for part in training):
        parts = [part for part in training if part.language == language]
        pivots, foreign = joined(part.pivots for part in parts), joined(part.foreign for part in parts)
        pieces = cut(tokeniser, blocks(foreign))
        in_foreign += np.bincount(pieces.ids, minlength=size)
        of_teacher = cut(teacher.tokeniser, blocks(pivots))
        alignments.append(align(of_teacher, pieces, iterations=config.align_iterations))
        progress.advance(done := done + len(pivots))
    occurrences = in_pivots + in_foreign
    share = np.where(occurrences > 0, in_pivots / np.maximum(occurrences, 1), 1.0)
    return aligned_rows(teacher.rows, _spelt(tokeniser, teacher), share, alignments)


def _spelt(tokeniser: "Tokenizer", teacher: Teacher) -> list[list[int]]:
    """Return for each new piece the teacher's piece that it copies, or the pieces that the teacher splits it into."""
    teacher_ids, unknown = teacher.vocabulary, teacher.vocabulary[teacher.special[ROLES.index("unk")]]
    vocabulary = tokeniser.get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    cut_pieces = cut(teacher.tokeniser, [[piece.removeprefix(START) for piece in pieces]])
    cuts = [part.tolist() for part in np.split(cut_pieces.ids, np.cumsum(cut_pieces.lengths)[:-1])]

    def spelt(piece: str, parts: list[int]) -> list[int]:
        if piece in teacher.special:
            return [teacher_ids[piece]]
        copy = piece.removeprefix(START) if piece.startswith(START) else f"##{piece}"
        known = [part for part in parts if part != unknown]
        return [teacher_ids[copy]] if copy in teacher_ids else known or [unknown]

    return [spelt(piece, parts) for piece, parts in zip(pieces, cuts, strict=True)]

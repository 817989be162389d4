"""What a student is trained on: texts in tokens, each with the teacher's sentence that it means, in batches."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from disent_core.encoders.kinds.distilled import DistilledConfig
from disent_core.encoders.kinds.distilled.pairs import Material
from disent_core.encoders.tokens import TokenisedTexts, joined_tokens
from disent_core.optimisation.seeds import derived_seed
from disent_core.storage.text_columns import BLOCK, TextColumn, blocks, joined, numbered

_FINAL = ".?!。？！"


@dataclass(frozen=True)
class Lessons:
    """Texts to train on.

    Attributes:
        tokens: of every text, without final punctuation in half of them.
        target: row of `teacher` that a text means.
        is_pivot: whether a text is in the teacher's language, so that its target is itself.
        corpus: number of the corpus of each text; sentences to pick from are of one corpus.
        teacher: the teacher's vectors, of norm 1; those of a corpus lie together.
        starts: row of `teacher` at which each corpus begins, and the end.
    """

    tokens: TokenisedTexts
    target: Int[np.ndarray, " texts"]
    is_pivot: Bool[np.ndarray, " texts"]
    corpus: Int[np.ndarray, " texts"]
    teacher: Float[np.ndarray, "sentences dim"]
    starts: Sequence[int]

    def bank_of(self, text: int) -> tuple[int, int]:
        """First row of the corpus of a text in `teacher`, and the row after its last."""
        corpus = int(self.corpus[text])
        return self.starts[corpus], self.starts[corpus + 1]


def lessons_of(
    material: Material,
    teacher_vectors: Callable[[TextColumn], Float[np.ndarray, "sentences dim"]],
    tokenise: Callable[[Sequence[str]], TokenisedTexts],
) -> Lessons:
    """Return the distinct pairs of text and sentence of every corpus, and each sentence as a text of its own.

    Args:
        material: its training pairs are taken.
        teacher_vectors: gives the vectors of sentences, in a matrix of its own.
        tokenise: cuts texts.
    """
    texts: list[TextColumn] = []
    sentences: list[TextColumn] = []
    targets: list[np.ndarray] = []
    is_pivot: list[bool] = []
    starts = [0]
    names = list(dict.fromkeys(part.corpus for part in material.training))
    for name in names:
        parts = [part for part in material.training if part.corpus == name]
        pivots, target = numbered(joined(part.pivots for part in parts))
        foreign, text = numbered(joined(part.foreign for part in parts))
        _, first = np.unique(text * len(pivots) + target, return_index=True)
        first.sort()
        texts += [foreign.take(text[first]), pivots]
        targets += [starts[-1] + target[first], starts[-1] + np.arange(len(pivots))]
        is_pivot += [False, True]
        sentences.append(pivots)
        starts.append(starts[-1] + len(pivots))
    sizes = np.array([len(column) for column in texts], dtype=np.int64)
    return Lessons(
        tokens=joined_tokens([tokenise([_seen(text) for text in block]) for block in blocks(joined(texts))]),
        target=np.concatenate([np.zeros(0, np.int64), *targets]),
        is_pivot=np.repeat(np.array(is_pivot, bool), sizes),
        corpus=np.repeat(np.arange(len(names)).repeat(2), sizes),
        teacher=_unit(teacher_vectors(joined(sentences))),
        starts=starts,
    )


def _unit(vectors: Float[np.ndarray, "texts dim"]) -> Float[np.ndarray, "texts dim"]:
    """The vectors in float32, divided by their norms in place."""
    unit = vectors.astype(np.float32, copy=False)
    for start in range(0, len(unit), BLOCK):
        block = unit[start : start + BLOCK]
        block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1e-12)
    return unit


def held_out_texts(material: Material, most: int) -> dict[str, tuple[list[str], list[str]]]:
    """By language: distinct pivots, at most so many, and a translation of each."""
    chosen: dict[str, dict[str, str]] = {}
    for part in material.held_out:
        of_language = chosen.setdefault(part.language, {})
        for pivot, foreign in part.pairs:
            if len(of_language) == most:
                break
            of_language.setdefault(pivot, foreign)
    return {language: (list(kept), list(kept.values())) for language, kept in chosen.items() if kept}


def _seen(text: str) -> str:
    """The text as the student sees it: in half of the texts, always the same, final punctuation is left out."""
    bare = text.rstrip(f"{_FINAL} ")
    return bare if bare and hashlib.sha256(text.encode()).digest()[0] % 2 else text


def plan_pass(lessons: Lessons, config: DistilledConfig, number: int) -> list[Int[np.ndarray, " rows"]]:
    """Batches of a pass, as many in every pass: all foreign texts, a share of the pivots, each of one length and
    corpus."""
    random = np.random.default_rng(derived_seed(config.seed, "distillation", number))
    lengths, batches = lessons.tokens.lengths, []
    order = np.lexsort((lengths, lessons.corpus))
    corpus_and_length = np.stack([lessons.corpus[order], lengths[order]])
    starts = np.flatnonzero((np.diff(corpus_and_length, axis=1, prepend=-1) != 0).any(axis=0))
    for group in np.split(order, starts[1:]) if len(order) else ():
        pivots_of_group = group[lessons.is_pivot[group]]
        taken = random.permutation(pivots_of_group)[: int(config.pivot_share * len(pivots_of_group))]
        rows = random.permutation(np.concatenate([group[~lessons.is_pivot[group]], taken]))
        batches += [rows[start : start + config.batch_size] for start in range(0, len(rows), config.batch_size)]
    return [batches[index] for index in random.permutation(len(batches))]


def by_length(lengths: Int[np.ndarray, " texts"], size: int) -> Iterator[Int[np.ndarray, " rows"]]:
    """Batches of texts of one length, at most `size` each."""
    order = np.argsort(lengths, kind="stable")
    starts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    for group in np.split(order, starts[1:]) if len(order) else ():
        for start in range(0, len(group), size):
            yield group[start : start + size]

"""What a student is trained on: texts in tokens, each with the teacher's sentence that it means, in batches."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from disent_core.encoders.config import DistilledConfig
from disent_core.encoders.distilled.pairs import Material
from disent_core.encoders.tokens import TokenisedTexts
from disent_core.optimisation.seeds import derived_seed

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
    teacher_vectors: Mapping[str, Float[np.ndarray, " dim"]],
    tokenise: Callable[[Sequence[str]], TokenisedTexts],
) -> Lessons:
    """Return the distinct pairs of text and sentence of every corpus, and each sentence as a text of its own."""
    texts: list[str] = []
    targets: list[int] = []
    is_pivot: list[bool] = []
    corpora: list[int] = []
    sentences: list[str] = []
    starts = [0]
    for number, corpus in enumerate(dict.fromkeys(part.corpus for part in material.training)):
        parts = [part for part in material.training if part.corpus == corpus]
        pivots = dict.fromkeys(text for part in parts for text in part.pivots)
        row = {text: len(sentences) + index for index, text in enumerate(pivots)}
        foreign = dict.fromkeys((text, row[pivot]) for part in parts for pivot, text in part.pairs)
        own = list(row.items())
        texts += [text for text, _ in (*foreign, *own)]
        targets += [target for _, target in (*foreign, *own)]
        is_pivot += [False] * len(foreign) + [True] * len(own)
        corpora += [number] * (len(foreign) + len(own))
        sentences += pivots
        starts.append(len(sentences))
    vectors = np.array([teacher_vectors[text] for text in sentences], dtype=np.float32, ndmin=2)
    return Lessons(
        tokens=tokenise([_seen(text) for text in texts]),
        target=np.array(targets, dtype=np.int64),
        is_pivot=np.array(is_pivot, dtype=bool),
        corpus=np.array(corpora, dtype=np.int64),
        teacher=vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12),
        starts=starts,
    )


def held_out_texts(material: Material, most: int) -> dict[str, tuple[list[str], list[str]]]:
    """By language: distinct pivots, at most so many, and a translation of each."""
    pairs: dict[str, dict[str, str]] = {}
    for part in material.held_out:
        of_language = pairs.setdefault(part.language, {})
        for pivot, foreign in part.pairs:
            of_language.setdefault(pivot, foreign)
    chosen = {language: list(of_language.items())[:most] for language, of_language in pairs.items() if of_language}
    return {language: ([one for one, _ in kept], [other for _, other in kept]) for language, kept in chosen.items()}


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
    places = np.stack([lessons.corpus[order], lengths[order]])
    starts = np.flatnonzero((np.diff(places, axis=1, prepend=-1) != 0).any(axis=0))
    for group in np.split(order, starts[1:]) if len(order) else ():
        own = group[lessons.is_pivot[group]]
        taken = random.permutation(own)[: int(config.pivot_share * len(own))]
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

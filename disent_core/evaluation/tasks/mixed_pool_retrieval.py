"""Retrieve the translation from one pool of both languages of a pair, or of all languages of a training set.

`crosslingual_retrieval` has candidates only in the other language, so it can't show whether a text is nearer to its
translation than to other texts of its own language. Here the candidates are the texts of both languages except the
query and its copies. Two tasks read the same nearest candidate:

* `mixed_pool_retrieval`, accuracy at 1: it is the translation.
* `own_language_neighbours`, lower is better: the share of queries whose nearest candidate is of their own language.
  With embeddings free of language it is about half of what `mixed_pool_retrieval` misses.

`en-de` has queries in en. Queries whose translation is the very same text are left out, since it is no candidate.

`language_pool_retrieval` has candidates of all languages of a training set, which are at least three. The nearest one
is right if it is the same utterance in any other language. `own_language_error` is the share of queries whose nearest
candidate is in their own language. Utterances that are the same text in all languages are no queries. `de+en+ja` has
queries and candidates in all three. An item is an utterance, the mean over its languages: they are not drawn
independently of each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations

import numpy as np
from jaxtyping import Float, Int

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.evaluation.tasks.parallel import (
    pair_texts,
    same_order,
    sentence_pairs,
    split_utterances,
    utterance_texts,
)

NAME, OWN_LANGUAGE_NAME = "mixed_pool_retrieval", "own_language_neighbours"
RANKED = ("meaning", "sentence")
_FETCHED = 4  # nearest candidates of a query that are searched first; few texts occur more often in the pool


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedPoolProblem(Problem):
    """Texts by role `query` and `other`: row i of both is a translation; the pool is all of both.

    Attributes:
        text_of: number of the text of each candidate, `query` first: equal texts have equal numbers.
        equal_text_counts: a copy of the translation is right as well.
        measures_language: whether an item counts a candidate in the query's own language instead of the translation.
    """

    text_of: Int[np.ndarray, " candidates"]
    equal_text_counts: bool
    measures_language: bool

    def score(self, matrices: Mapping[str, Float[np.ndarray, "texts dim"]]) -> list[Measurement]:
        """Return the share of queries whose nearest candidate is right, or of their own language."""
        pool = np.concatenate([matrices["query"], matrices["other"]])
        rows = np.arange(len(pool) // 2)
        rows = rows[self.text_of[rows] != self.text_of[rows + len(rows)]]
        first = nearest_other(rows, pool, self.text_of)
        if self.measures_language:
            return [measured("share", (first < len(pool) // 2).astype(float))]
        translation = rows + len(pool) // 2
        is_right = first == translation
        if self.equal_text_counts:
            is_right |= self.text_of[first] == self.text_of[translation]
        return [measured("accuracy_at_1", is_right.astype(float))]


def nearest_other(
    rows: Int[np.ndarray, " queries"],
    pool: Float[np.ndarray, "candidates dim"],
    text_of: Int[np.ndarray, " candidates"],
) -> Int[np.ndarray, " queries"]:
    """Return for each of these rows of the pool the nearest candidate with another text."""
    nearest_other, due, fetched = np.empty(len(rows), np.int64), np.arange(len(rows)), _FETCHED
    while len(due):
        _, indices = nearest(pool[rows[due]], pool, fetched)
        is_other = text_of[indices] != text_of[rows[due]][:, None]
        has_other = is_other.any(axis=1)
        nearest_other[due[has_other]] = indices[has_other, is_other[has_other].argmax(axis=1)]
        due, fetched = due[~has_other], 4 * fetched
    return nearest_other


def problems(inputs: Inputs, config: EvaluationConfig, *, measures_language: bool = False) -> list[Problem]:
    """Return a problem for each direction of a pair of two languages; none without a query."""
    if len(set(inputs.languages)) < 2:
        return []
    directions = permutations(_sides(inputs, config))
    both = (_problem(inputs, config, sides, measures_language) for sides in directions)
    return [problem for problem in both if problem is not None]


def _sides(inputs: Inputs, config: EvaluationConfig) -> list[Texts]:
    if inputs.kind != "utterances":
        return list(pair_texts(inputs, sentence_pairs(inputs, config.split)))
    where = f"{inputs.corpus} {inputs.pair} {config.split}"
    ordered = same_order(split_utterances(inputs, config.split), where, inputs.parallel)
    return list(map(utterance_texts, inputs.languages, ordered))


def _problem(
    inputs: Inputs, config: EvaluationConfig, sides: tuple[Texts, ...], measures_language: bool
) -> MixedPoolProblem | None:
    query, other = sides
    _, text_of = np.unique([*query.keys, *other.keys], return_inverse=True)
    if (text_of[: len(query)] == text_of[len(query) :]).all():
        return None
    return MixedPoolProblem(
        task=OWN_LANGUAGE_NAME if measures_language else NAME,
        dataset=inputs.corpus,
        evaluated_on=f"{query.language}-{other.language}",
        texts={"query": query, "other": other},
        settings={
            "split": config.split,
            "equal_text_counts": config.equal_text_counts,
            "pool_size": len(text_of),
            "pool_duplicates": len(text_of) - int(text_of.max()) - 1,
        },
        embeddings=RANKED,
        text_of=text_of,
        equal_text_counts=config.equal_text_counts,
        measures_language=measures_language,
    )


TASK = Task(
    name=NAME,
    scope="pair",
    tables=("utterances", "sentence_pairs"),
    problems=problems,
    kinds=("utterances", "translations"),
    ranked=RANKED,
)
OWN_LANGUAGE = replace(
    TASK, name=OWN_LANGUAGE_NAME, problems=partial(problems, measures_language=True), lower_is_better=True
)


# --- all languages of a training set ----------------------------------------------------------------------

SET_NAME = "language_pool_retrieval"


@dataclass(frozen=True, kw_only=True, eq=False)
class LanguagePoolProblem(Problem):
    """Texts by role, which is the language: row i of all of them is one utterance; the pool is all of them.

    Attributes:
        text_of: number of the text of each utterance in each language: equal texts have equal numbers.
        equal_text_counts: a copy of a translation is right as well.
    """

    text_of: Int[np.ndarray, "languages utterances"]
    equal_text_counts: bool

    def score(self, matrices: Mapping[str, Float[np.ndarray, "utterances dim"]]) -> list[Measurement]:
        """Return two shares of queries: the nearest candidate is a translation, or is in the language of the query."""
        languages, utterances = self.text_of.shape
        queries = translated(self.text_of)
        rows = (np.arange(languages)[:, None] * utterances + queries).ravel()
        first = nearest_other(rows, np.concatenate(list(matrices.values())), self.text_of.ravel())
        first = first.reshape(languages, -1)
        is_right = first % utterances == queries
        if self.equal_text_counts:
            is_right |= (self.text_of[:, None, queries] == self.text_of.ravel()[first]).any(axis=0)
        is_same_language = first // utterances == np.arange(languages)[:, None]
        return [
            measured("accuracy_at_1", is_right.mean(axis=0)),
            measured("own_language_error", is_same_language.mean(axis=0)),
        ]


def translated(text_of: Int[np.ndarray, "languages utterances"]) -> Int[np.ndarray, " queries"]:
    """Return the utterances that are not the same text in all languages, so that each text has another translation."""
    return np.flatnonzero(text_of.min(axis=0) != text_of.max(axis=0))


def set_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of the languages; none without a query."""
    sides = _sides(inputs, config)
    keys = [key for side in sides for key in side.keys]
    text_of = np.unique(keys, return_inverse=True)[1].reshape(len(sides), -1)
    if not len(translated(text_of)):
        return []
    return [
        LanguagePoolProblem(
            task=SET_NAME,
            dataset=inputs.corpus,
            evaluated_on="+".join(inputs.languages),
            texts={side.language: side for side in sides},
            settings={
                "split": config.split,
                "equal_text_counts": config.equal_text_counts,
                "pool_size": text_of.size,
                "pool_duplicates": text_of.size - int(text_of.max()) - 1,
            },
            embeddings=RANKED,
            text_of=text_of,
            equal_text_counts=config.equal_text_counts,
        )
    ]


LANGUAGE_POOL = Task(name=SET_NAME, scope="set", tables=("utterances",), problems=set_problems, ranked=RANKED)

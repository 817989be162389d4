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
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.evaluation.tasks.parallel import parallel_texts

NAME, OWN_LANGUAGE_NAME, SET_NAME = "mixed_pool_retrieval", "own_language_neighbours", "language_pool_retrieval"
RANKED = ("meaning", "sentence")
_FETCHED = 4  # nearest candidates of a query that are searched first; few texts occur more often in the pool


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedPoolProblem(Problem):
    """Texts of a language by role: row i of all roles is one utterance; the pool is all of them.

    Attributes:
        text_of: number of the text of each utterance in each language: equal texts have equal numbers.
        equal_text_counts: a copy of a translation is right as well.
        asking: number of languages, the first ones, whose texts are queries.
        translation: metric of the queries whose nearest candidate is a translation; empty if it is not measured.
        own_language: metric of those whose nearest candidate is in their language; empty if it is not measured.
    """

    text_of: Int[np.ndarray, "languages utterances"]
    equal_text_counts: bool
    asking: int
    translation: str
    own_language: str

    def score(self, matrices: Mapping[str, Float[np.ndarray, "utterances dim"]]) -> list[Measurement]:
        """Return shares of queries; an item is an utterance, the mean over the languages that ask."""
        queries, asking = translated(self.text_of), np.arange(self.asking)[:, None]
        utterances = self.text_of.shape[1]
        rows = (asking * utterances + queries).ravel()
        pool = np.concatenate([matrices[role] for role in self.texts])
        first = nearest_other(rows, pool, self.text_of.ravel()).reshape(self.asking, -1)
        is_right = first % utterances == queries
        if self.equal_text_counts:
            is_right |= (self.text_of[:, None, queries] == self.text_of.ravel()[first]).any(axis=0)
        shares = ((self.translation, is_right), (self.own_language, first // utterances == asking))
        return [measured(metric, is_counted.mean(axis=0)) for metric, is_counted in shares if metric]


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


def translated(text_of: Int[np.ndarray, "languages utterances"]) -> Int[np.ndarray, " queries"]:
    """Return the utterances that are not the same text in all languages, so that each text has another translation."""
    return np.flatnonzero(text_of.min(axis=0) != text_of.max(axis=0))


def problems(
    inputs: Inputs,
    config: EvaluationConfig,
    *,
    task: str = NAME,
    translation: str = "accuracy_at_1",
    own_language: str = "",
) -> list[Problem]:
    """Return a problem for each direction of a pair of two languages; none without a query."""
    if len(set(inputs.languages)) < 2:
        return []
    made = []
    for query, other in permutations(parallel_texts(inputs, config.split)[1]):
        sides, names = {"query": query, "other": other}, {"translation": translation, "own_language": own_language}
        made += _problems(inputs, config, sides, task, f"{query.language}-{other.language}", asking=1, **names)
    return made


def set_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of the languages; none without a query."""
    sides = {side.language: side for side in parallel_texts(inputs, config.split)[1]}
    names = {"translation": "accuracy_at_1", "own_language": "own_language_error"}
    return _problems(inputs, config, sides, SET_NAME, "+".join(sides), asking=len(sides), **names)


def _problems(
    inputs: Inputs, config: EvaluationConfig, sides: Mapping[str, Texts], task: str, evaluated_on: str, **details: Any
) -> list[Problem]:
    keys = [key for side in sides.values() for key in side.keys]
    text_of = np.unique(keys, return_inverse=True)[1].reshape(len(sides), -1)
    if not len(translated(text_of)):
        return []
    settings = {
        "split": config.split,
        "equal_text_counts": config.equal_text_counts,
        "pool_size": text_of.size,
        "pool_duplicates": text_of.size - int(text_of.max()) - 1,
    }
    return [
        MixedPoolProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on=evaluated_on,
            texts=sides,
            settings=settings,
            embeddings=RANKED,
            text_of=text_of,
            equal_text_counts=config.equal_text_counts,
            **details,
        )
    ]


TASK = Task(
    name=NAME,
    scope="pair",
    tables=("utterances", "sentence_pairs"),
    problems=problems,
    kinds=("utterances", "translations"),
    ranked=RANKED,
)
OWN_LANGUAGE = replace(
    TASK,
    name=OWN_LANGUAGE_NAME,
    problems=partial(problems, task=OWN_LANGUAGE_NAME, translation="", own_language="share"),
    lower_is_better=True,
)
LANGUAGE_POOL = Task(name=SET_NAME, scope="set", tables=("utterances",), problems=set_problems, ranked=RANKED)

"""Retrieve a translation from one pool of all languages of a training set, which are at least three.

Candidates are the texts of all languages, but the query and what has the same text. The nearest one is right if it is
the same utterance in any other language. `own_language_error` is the share of queries whose nearest candidate is in
their own language. Utterances that are the same text in all languages are no queries.

`de+en+ja` has queries and candidates in all three. An item is an utterance, the mean over its languages: they are not
drawn independently of each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.tasks.mixed_pool_retrieval import nearest_other
from disent_core.evaluation.tasks.parallel import same_order, split_utterances, utterance_texts

NAME = "language_pool_retrieval"
RANKED = ("meaning", "sentence")


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
        """Return the share of queries whose nearest candidate is a translation, and is in their own language."""
        languages, utterances = self.text_of.shape
        queries = translated(self.text_of)
        rows = (np.arange(languages)[:, None] * utterances + queries).ravel()
        first = nearest_other(rows, np.concatenate(list(matrices.values())), self.text_of.ravel())
        first = first.reshape(languages, -1)
        is_right = first % utterances == queries
        if self.equal_text_counts:
            is_right |= (self.text_of[:, None, queries] == self.text_of.ravel()[first]).any(axis=0)
        is_own = first // utterances == np.arange(languages)[:, None]
        return [
            measured("accuracy_at_1", is_right.mean(axis=0)),
            measured("own_language_error", is_own.mean(axis=0)),
        ]


def translated(text_of: Int[np.ndarray, "languages utterances"]) -> Int[np.ndarray, " queries"]:
    """Return the utterances that are not the same text in all languages, so that each text has another translation."""
    return np.flatnonzero(text_of.min(axis=0) != text_of.max(axis=0))


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of the languages; none without a query."""
    where = f"{inputs.corpus} {inputs.pair} {config.split}"
    ordered = same_order(split_utterances(inputs, config.split), where, inputs.parallel)
    sides = list(map(utterance_texts, inputs.languages, ordered))
    keys = [key for side in sides for key in side.keys]
    text_of = np.unique(keys, return_inverse=True)[1].reshape(len(sides), -1)
    if not len(translated(text_of)):
        return []
    return [
        LanguagePoolProblem(
            task=NAME,
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


TASK = Task(name=NAME, scope="set", tables=("utterances",), problems=problems, ranked=RANKED)

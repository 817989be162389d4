"""Nearest neighbour by intent, leaving the query out: is the nearest utterance one of the same intent?

EMU's protocol (Hirota et al. 2020): query is utterance i of language a, candidates are all utterances of
language b but for i itself (and so but for its translation), accuracy at 1 over the intents, equal scores
to the lowest index. `en-de` reads query en, candidates de; `en` is one language on both sides. Where languages
share some ids only, every utterance is a query and a candidate all the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from disent_core.evaluation.contract import Embedded, EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.evaluation.tasks.parallel import same_order, utterance_texts

NAME = "intent_knn"


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentProblem(Problem):
    """Texts by role `query` and `pool`.

    Attributes:
        intents: of the queries.
        pool_intents: of the candidates.
        skip: the candidate that each query may not find, -1: it may find all.
    """

    takes_late_interaction: ClassVar[bool] = True

    intents: np.ndarray
    pool_intents: np.ndarray
    skip: Int[np.ndarray, " queries"]

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Share of the queries whose nearest candidate has their intent."""
        _, indices = nearest(matrices["query"], matrices["pool"], 1, skip=self.skip)
        return [measured("accuracy_at_1", (self.pool_intents[indices[:, 0]] == self.intents).astype(float))]


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """One problem of a language, two of a pair; none where fewer than two utterances have an intent.

    Raises:
        AlignmentError: if an id is there twice, or an utterance of a parallel corpus misses in one language.
    """
    where = f"{inputs.corpus} {'-'.join(inputs.languages)} {config.split}"
    tables = [_with_intent(inputs.tables["utterances", one], config) for one in inputs.languages]
    shared = same_order(tables, where, inputs.parallel)
    if inputs.parallel == "all":
        tables = shared
    if min(map(len, tables)) < 2:
        return []
    sides = [(utterance_texts(*side), side[1]) for side in zip(inputs.languages, tables, strict=True)]
    directions = list(permutations(sides)) if len(sides) > 1 else [(sides[0], sides[0])]
    return [
        IntentProblem(
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on="-".join(dict.fromkeys((queries.language, pool.language))),
            texts={"query": queries, "pool": pool},
            intents=np.asarray(own["intent"]),
            pool_intents=np.asarray(other["intent"]),
            skip=_translations(own, other, shared[0]["utterance_id"]),
            settings={"split": config.split},
        )
        for (queries, own), (pool, other) in directions
    ]


def _with_intent(utterances: pa.Table, config: EvaluationConfig) -> pa.Table:
    chosen = utterances.select(["utterance_id", "split", "text_key", "text", "intent"])
    return chosen.filter((pc.field("split") == config.split) & pc.field("intent").is_valid())


def _translations(own: pa.Table, other: pa.Table, shared: pa.ChunkedArray) -> Int[np.ndarray, " queries"]:
    """Row of `other` that is the same utterance as each row of `own`, -1 where none is."""
    ids = own["utterance_id"]
    rows = pc.index_in(ids, value_set=other["utterance_id"])
    known = pc.if_else(pc.is_in(ids, value_set=shared), rows, None)
    return pc.fill_null(known, -1).to_numpy().astype(np.int64)


TASK = Task(name=NAME, scope="both", tables=("utterances",), problems=problems)

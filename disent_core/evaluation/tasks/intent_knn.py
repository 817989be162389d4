"""Classify intents by the nearest neighbour: has the nearest other utterance the same intent?

EMU's protocol (Hirota et al. 2020): the query is utterance i of language a, candidates are all utterances of language
b except i (itself or its translation), the metric is accuracy at 1 over the intents, ties go to the lowest index.
`en-de` has queries in en and candidates in de; `en` is one language on both sides. If languages share only some ids,
every utterance is still a query and a candidate.
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
from disent_core.evaluation.tasks.parallel import same_order, split_utterances, utterance_texts


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentProblem(Problem):
    """Texts by role `query` and `pool`, with the intents of both.

    `skip` has the index of the candidate to leave out for each query, -1 for none.
    """

    takes_late_interaction: ClassVar[bool] = True

    intents: np.ndarray
    pool_intents: np.ndarray
    skip: Int[np.ndarray, " queries"]

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return the share of queries whose nearest candidate has their intent."""
        _, indices = nearest(matrices["query"], matrices["pool"], 1, skip=self.skip)
        return [measured("accuracy_at_1", (self.pool_intents[indices[:, 0]] == self.intents).astype(float))]


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem of a language, two of a pair; none if fewer than two utterances have an intent."""
    where = f"{inputs.corpus} {'-'.join(inputs.languages)} {config.split}"
    tables = split_utterances(inputs, config.split, with_intent=True)
    shared = same_order(tables, where, inputs.parallel)
    if inputs.parallel == "all":
        tables = shared
    if min(map(len, tables)) < 2:
        return []
    sides = [(utterance_texts(*side), side[1]) for side in zip(inputs.languages, tables, strict=True)]
    directions = list(permutations(sides)) if len(sides) > 1 else [(sides[0], sides[0])]
    return [
        IntentProblem(
            task="intent_knn",
            dataset=inputs.corpus,
            evaluated_on="-".join(dict.fromkeys((queries.language, pool.language))),
            texts={"query": queries, "pool": pool},
            intents=np.asarray(query_table["intent"]),
            pool_intents=np.asarray(pool_table["intent"]),
            skip=_translations(query_table, pool_table, shared[0]["utterance_id"]),
            settings={"split": config.split},
        )
        for (queries, query_table), (pool, pool_table) in directions
    ]


def _translations(query_table: pa.Table, pool_table: pa.Table, shared: pa.ChunkedArray) -> Int[np.ndarray, " queries"]:
    """Return for each row of `query_table` the row of `pool_table` with the same utterance, or -1 if there is none."""
    ids = query_table["utterance_id"]
    rows = pc.index_in(ids, value_set=pool_table["utterance_id"])
    shared_rows = pc.if_else(pc.is_in(ids, value_set=shared), rows, None)
    return pc.fill_null(shared_rows, -1).to_numpy().astype(np.int64)


TASK = Task(name="intent_knn", scope="both", tables=("utterances",), problems=problems)

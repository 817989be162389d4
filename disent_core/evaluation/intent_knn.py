"""Nearest neighbour by intent, leaving the query out: is the nearest utterance one of the same intent?

EMU's protocol (Hirota et al. 2020): query is utterance i of language a, candidates are all utterances of
language b but for i itself (and so but for its translation), accuracy at 1 over the intents, equal scores
to the lowest index. `en-de` reads query en, candidates de; `en` is one language on both sides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.evaluation.contract import (
    Embedded,
    EvaluationConfig,
    Inputs,
    Measurement,
    Problem,
    Task,
    Texts,
    measured,
)
from disent_core.evaluation.crosslingual_retrieval import same_order
from disent_core.evaluation.retrieval import nearest

NAME = "intent_knn"


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentProblem(Problem):
    """Texts by role `query` and `pool`, the same utterances in the same order; `intents` are theirs."""

    takes_late_interaction: ClassVar[bool] = True

    intents: np.ndarray

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Share of the queries whose nearest candidate has their intent."""
        own = np.arange(len(self.intents))
        _, indices = nearest(matrices["query"], matrices["pool"], 1, skip=own)
        return [measured("accuracy_at_1", (self.intents[indices[:, 0]] == self.intents).astype(float))]


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """One problem of a language, two of a pair; none where fewer than two utterances have an intent."""
    where = f"{inputs.corpus} {'-'.join(inputs.languages)} {config.split}"
    tables = same_order([_with_intent(inputs.tables["utterances", one], config) for one in inputs.languages], where)
    if len(tables[0]) < 2:
        return []
    sides = [
        (Texts(language, table["text_key"].to_pylist(), table["text"].to_pylist()), np.asarray(table["intent"]))
        for language, table in zip(inputs.languages, tables, strict=True)
    ]
    directions = list(permutations(sides)) if len(sides) > 1 else [(sides[0], sides[0])]
    return [
        IntentProblem(
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on="-".join(dict.fromkeys((queries.language, pool.language))),
            texts={"query": queries, "pool": pool},
            intents=intents,
            settings={"split": config.split},
        )
        for (queries, intents), (pool, _) in directions
    ]


def _with_intent(utterances: pa.Table, config: EvaluationConfig) -> pa.Table:
    chosen = utterances.select(["utterance_id", "split", "text_key", "text", "intent"])
    return chosen.filter((pc.field("split") == config.split) & pc.field("intent").is_valid())


TASK = Task(name=NAME, scope="both", tables=("utterances",), problems=problems)

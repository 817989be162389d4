"""Retrieve the original of a code-switched sentence, some of whose words are in another language.

ORACLE's protocol: queries are code-switched sentences, candidates are the originals of all of them, the metric is
accuracy at 1 by strict id. `en-de` means that originals are en and the other language is de. The setting `switched`
is the language of the sentence whose words are replaced (`code_switching.replace`), `replaced_share` the mean share of
replaced words in a sentence.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.tasks.retrieval_problem import Pool, retrieval_problem
from disent_core.storage.schemas import SCHEMAS

if TYPE_CHECKING:
    import polars as pl


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of each switched language of a pair; pairs without a word list have no table."""
    import polars as pl

    table = "code_switched_pairs"
    pairs = inputs.tables.get((table, inputs.pair), SCHEMAS[table].empty_table())
    chosen = pl.DataFrame(pairs.filter(pc.field("split") == config.split))
    parts = chosen.partition_by("switched_language", "original_language", as_dict=True)
    return [_problem(inputs, config, switched, original, rows) for (switched, original), rows in parts.items()]


def _problem(inputs: Inputs, config: EvaluationConfig, switched: str, original: str, pairs: "pl.DataFrame") -> Problem:
    """Return the problem of the sentences of one switched language and one original language."""
    (foreign,) = {*inputs.languages} - {original}
    ids = pairs["pair_id"].to_arrow()
    originals = Texts.of(original, pairs["original"].to_list())
    replaced = pairs["replaced_words"].list.len().to_numpy() / pairs["words"].to_numpy()
    return retrieval_problem(
        Texts.of(switched, pairs["switched"].to_list()),
        ids,
        Pool(texts=originals, ids=ids, gold=np.arange(len(ids))[:, None]),
        config,
        task="code_switched_retrieval",
        dataset=inputs.corpus,
        evaluated_on=f"{original}-{foreign}",
        settings={"switched": switched, "replaced_share": round(float(replaced.mean()), 4)},
    )


TASK = Task(
    name="code_switched_retrieval",
    scope="pair",
    tables=("code_switched_pairs",),
    problems=problems,
    kinds=("translations", "bitext"),
)

"""Find the original of a sentence some of whose words are in another language.

ORACLE's protocol: queries are code-switched sentences, candidates the originals of all of them, accuracy at 1 by
strict id. `en-de` reads originals en, other language de, whichever of the two is that of the sentence whose words
are replaced (`code_switching.replace`; it is the setting `switched`). `replaced_share` is the mean share of a
sentence's words that are.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.tasks.retrieval_problem import Pool, retrieval_problem
from disent_core.storage.schemas import SCHEMAS

NAME = "code_switched_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """The problem of one pair; none where the split has no code-switched sentences."""
    table = "code_switched_pairs"
    pairs = inputs.tables.get((table, inputs.pair), SCHEMAS[table].empty_table())
    chosen = pairs.filter(pc.field("split") == config.split)
    return [_problem(inputs, config, switched, original, rows) for switched, original, rows in _by_languages(chosen)]


def _by_languages(pairs: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    """Language of the switched sentence, of the original, and their rows."""
    columns = ["switched_language", "original_language"]
    for row in pairs.select(columns).group_by(columns, use_threads=False).aggregate([]).to_pylist():
        switched, original = (row[column] for column in columns)
        own = (pc.field("switched_language") == switched) & (pc.field("original_language") == original)
        yield switched, original, pairs.filter(own)


def _problem(inputs: Inputs, config: EvaluationConfig, switched: str, original: str, pairs: pa.Table) -> Problem:
    (foreign,) = {*inputs.languages} - {original}
    ids = pairs["pair_id"].combine_chunks()
    originals = Texts.of(original, pairs["original"].to_pylist())
    replaced = pc.list_value_length(pairs["replaced_words"]).to_numpy() / pairs["words"].to_numpy()
    return retrieval_problem(
        Texts.of(switched, pairs["switched"].to_pylist()),
        ids,
        Pool(texts=originals, ids=ids, gold=np.arange(len(ids))[:, None]),
        config,
        task=NAME,
        dataset=inputs.corpus,
        evaluated_on=f"{original}-{foreign}",
        settings={"switched": switched, "replaced_share": round(float(replaced.mean()), 4)},
    )


TASK = Task(
    name=NAME,
    scope="pair",
    tables=("code_switched_pairs",),
    problems=problems,
    kinds=("translations", "bitext"),
)
"""Its table is there for pairs that have a word list."""

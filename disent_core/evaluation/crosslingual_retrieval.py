"""Find the translation: queries are the utterances of one language, candidates all those of the other.

FMDA's protocol on MASSIVE: 2,974 test utterances of X, all 2,974 of Y, gold is the same id, accuracy at 1.
Both directions are scored; `en-de` reads query en, pool de.
"""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.errors import AlignmentError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.retrieval_problem import Pool, retrieval_problem

NAME = "crosslingual_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """One problem for each direction of the pair; none where the split is empty on both sides.

    Raises:
        AlignmentError: if an utterance of one language is missing in the other, or an id is there twice.
    """
    where = f"{inputs.corpus} {'-'.join(inputs.languages)} {config.split}"
    chosen = [_of_split(inputs.tables["utterances", language], config.split) for language in inputs.languages]
    left, right = same_order(chosen, where)
    if not left.num_rows:
        return []
    ids = left.column("utterance_id").combine_chunks()
    sides = [
        Texts(language, table.column("text_key").to_pylist(), table.column("text").to_pylist())
        for language, table in zip(inputs.languages, (left, right), strict=True)
    ]
    gold = np.arange(len(ids))[:, None]
    return [
        retrieval_problem(
            queries,
            ids,
            Pool(texts=candidates, ids=ids, gold=gold),
            config,
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on=f"{queries.language}-{candidates.language}",
        )
        for queries, candidates in permutations(sides)
    ]


def _of_split(utterances: pa.Table, split: str) -> pa.Table:
    chosen = utterances.select(["utterance_id", "split", "text_key", "text"])
    return chosen.filter(pc.field("split") == split)


def same_order(tables: Sequence[pa.Table], where: str) -> list[pa.Table]:
    """Utterances of one or more languages, all in the order of the first.

    Raises:
        AlignmentError: if an utterance of one language is missing in another, or an id is there twice.
    """
    first = tables[0]["utterance_id"]
    return [tables[0], *(table.take(_places(first, table["utterance_id"], where)) for table in tables[1:])]


def _places(left: pa.ChunkedArray, right: pa.ChunkedArray, where: str) -> pa.Array:
    """Row of `right` for each row of `left`."""
    for ids in (left, right):
        if repeated := len(ids) - len(ids.unique()):
            raise AlignmentError(f"{where}: {repeated} of {len(ids)} utterance ids are there more than once")
    if odd := set(left.to_pylist()) ^ set(right.to_pylist()):
        raise AlignmentError(
            f"{where}: {len(odd)} of {len(left) + len(right)} utterances have no partner, e.g. "
            f"{sorted(odd)[:3]}. Retrieval needs a corpus whose languages share their utterance ids"
        )
    place = {name: row for row, name in enumerate(right.to_pylist())}
    return pa.array([place[name] for name in left.to_pylist()], pa.int64())


TASK = Task(name=NAME, scope="pair", tables=("utterances",), problems=problems)

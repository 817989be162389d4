"""Align parallel texts: utterances of two languages by their ids, sentences of a pair by their row."""

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.corpora.contract import Parallel
from disent_core.errors import AlignmentError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, SearchBackend, Texts
from disent_core.evaluation.tasks.retrieval_problem import Pool, retrieval_problem
from disent_core.storage.schemas import SCHEMAS


def same_order(tables: Sequence[pa.Table], where: str, parallel: Parallel = "all") -> list[pa.Table]:
    """Bring the utterances of one or more languages into the order of the first.

    Args:
        tables: one per language, with the column `utterance_id`.
        where: prefix of error messages.
        parallel: `some` keeps the ids that all tables share, `none` keeps no row of several tables.
    """
    for table in tables:
        _require_distinct(table["utterance_id"], where)
    if parallel == "none" and len(tables) > 1:
        return [table.slice(0, 0) for table in tables]
    first = tables[0]
    for table in tables[1:]:
        if parallel == "all":
            _require_equal(first["utterance_id"], table["utterance_id"], where)
        first = first.filter(pc.is_in(first["utterance_id"], value_set=table["utterance_id"]))
    return [first, *(table.take(pc.index_in(first["utterance_id"], table["utterance_id"])) for table in tables[1:])]


def _require_distinct(ids: pa.ChunkedArray, where: str) -> None:
    if repeated := len(ids) - len(ids.unique()):
        raise AlignmentError(f"{where}: {repeated} of {len(ids)} utterance ids are there more than once")


def _require_equal(left: pa.ChunkedArray, right: pa.ChunkedArray, where: str) -> None:
    if unpaired := set(left.to_pylist()) ^ set(right.to_pylist()):
        raise AlignmentError(
            f"{where}: {len(unpaired)} of {len(left) + len(right)} utterances have no partner, e.g. "
            f"{sorted(unpaired)[:3]}. This task needs a corpus whose languages share their utterance ids"
        )


def utterance_texts(language: str, utterances: pa.Table) -> Texts:
    """Return texts of the rows of `utterances`."""
    return Texts(language, utterances["text_key"].to_pylist(), utterances["text"].to_pylist())


def sentence_pairs(inputs: Inputs, split: str) -> pa.Table:
    """Return rows of the pair in that split; none if the corpus does not consist of sentence pairs."""
    pairs = inputs.tables.get(("sentence_pairs", inputs.pair), SCHEMAS["sentence_pairs"].empty_table())
    chosen = pairs.filter(pc.field("split") == split)
    if repeated := chosen.num_rows - len(chosen["pair_id"].unique()):
        where = f"{inputs.corpus} {inputs.pair} {split}"
        raise AlignmentError(f"{where}: {repeated} of {chosen.num_rows} pair ids are there more than once")
    return chosen


def pair_texts(inputs: Inputs, pairs: pa.Table) -> tuple[Texts, Texts]:
    """Source and target texts of the rows of `sentence_pairs`."""
    source, target = (
        Texts(language, pairs[f"{side}_key"].to_pylist(), pairs[side].to_pylist())
        for language, side in zip(inputs.languages, ("source", "target"), strict=True)
    )
    return source, target


def both_directions(
    sides: tuple[Texts, Texts],
    ids: pa.ChunkedArray,
    config: EvaluationConfig,
    *,
    task: str,
    dataset: str,
    training: Callable[[], tuple[Texts, Texts]] | None = None,
    search: SearchBackend = "exact",
) -> list[Problem]:
    """Return retrieval problems for each direction, where row i of both sides is a translation; none without rows.

    Each direction has a problem for each correction in `config.hubness`. `train_bias` asks `training` for the texts of
    both sides that are the banks; without any on the query's side there is no such problem.
    """
    if not len(ids):
        return []
    names, gold = ids.combine_chunks(), np.arange(len(ids))[:, None]
    banks = training() if training and "train_bias" in config.hubness else (None, None)
    return [
        retrieval_problem(
            queries,
            names,
            Pool(texts=candidates, ids=names, gold=gold),
            config,
            task=task,
            dataset=dataset,
            evaluated_on=f"{queries.language}-{candidates.language}",
            hubness=hubness,
            bank=bank if hubness == "train_bias" else None,
            search=search,
        )
        for (queries, bank), (candidates, _) in permutations(zip(sides, banks, strict=True))
        for hubness in config.hubness
        if hubness != "train_bias" or bank
    ]

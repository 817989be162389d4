"""Align parallel texts: utterances of two languages by their ids, sentences of a pair by their row."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.corpora.contract import KINDS, Parallel
from disent_core.corpora.translations import check_intents
from disent_core.errors import AlignmentError, commas
from disent_core.evaluation.contract import Inputs, Texts
from disent_core.storage.schemas import SCHEMAS


def same_order(tables: Sequence[pa.Table], where: str, parallel: Parallel = "all") -> list[pa.Table]:
    """Sort the utterances of one or more languages in the order of the first table; errors begin with `where`.

    `some` keeps the ids that all tables share; `none` keeps no rows of several tables. Reject rows that mostly differ
    in intent from the first table's: they are not translations.
    """
    for table in tables:
        _require_distinct(table["utterance_id"], where, "utterance ids")
    if parallel == "none" and len(tables) > 1:
        return [table.slice(0, 0) for table in tables]
    first = tables[0]
    for table in tables[1:]:
        left, right = first["utterance_id"], table["utterance_id"]
        if parallel == "all" and (unpaired := set(left.to_pylist()) ^ set(right.to_pylist())):
            raise AlignmentError(
                f"{where}: {len(unpaired)} of {len(left) + len(right)} utterances have no partner, e.g. "
                f"{commas(sorted(unpaired)[:3])}. This task needs a corpus whose languages share their utterance ids"
            )
        first = first.filter(pc.is_in(left, value_set=right))
    ordered = [first, *(table.take(pc.index_in(first["utterance_id"], table["utterance_id"])) for table in tables[1:])]
    for table in ordered[1:]:
        check_intents(first["utterance_id"], first["intent"], table["intent"], where)
    return ordered


def _require_distinct(ids: pa.ChunkedArray, where: str, name: str) -> None:
    if repeated := len(ids) - len(ids.unique()):
        raise AlignmentError(f"{where}: {repeated} of {len(ids)} {name} repeat an earlier one")


def split_utterances(inputs: Inputs, split: str, *, with_intent: bool = False) -> list[pa.Table]:
    """Return the utterances of the split by language; `with_intent` leaves out those without an intent."""
    is_chosen = pc.field("split") == split
    if with_intent:
        is_chosen &= pc.field("intent").is_valid()
    columns = ["utterance_id", "split", "text_key", "text", "intent"]
    return [inputs.tables["utterances", language].select(columns).filter(is_chosen) for language in inputs.languages]


def utterance_texts(language: str, utterances: pa.Table) -> Texts:
    return Texts(language, utterances["text_key"].to_pylist(), utterances["text"].to_pylist())


def sentence_pairs(inputs: Inputs, split: str) -> pa.Table:
    """Return the pair's rows in that split; none if the corpus has no sentence pairs, or the split is not embedded."""
    pairs = inputs.tables.get(("sentence_pairs", inputs.pair), SCHEMAS["sentence_pairs"].empty_table())
    is_embedded = split != "train" or inputs.trains
    chosen = pairs.filter(pc.field("split") == split) if is_embedded else pairs.slice(0, 0)
    _require_distinct(chosen["pair_id"], f"{inputs.corpus} {inputs.pair} {split}", "pair ids")
    return chosen


def pair_texts(inputs: Inputs, pairs: pa.Table) -> list[Texts]:
    """Return source and target texts of the rows of `sentence_pairs`."""
    return [
        Texts(language, pairs[f"{side}_key"].to_pylist(), pairs[side].to_pylist())
        for language, side in zip(inputs.languages, ("source", "target"), strict=True)
    ]


def all_texts(inputs: Inputs, split: str) -> list[Texts]:
    """Return the texts of the split by language, in the order of each table."""
    if KINDS[inputs.kind] == "sentence_pairs":
        return pair_texts(inputs, sentence_pairs(inputs, split))
    return list(map(utterance_texts, inputs.languages, split_utterances(inputs, split)))


def parallel_texts(inputs: Inputs, split: str) -> tuple[pa.ChunkedArray, list[Texts]]:
    """Return the ids and, by language, the texts of the split whose rows are translations of each other."""
    if KINDS[inputs.kind] == "sentence_pairs":
        pairs = sentence_pairs(inputs, split)
        return pairs["pair_id"], pair_texts(inputs, pairs)
    tables = same_order(split_utterances(inputs, split), f"{inputs.corpus} {inputs.pair} {split}", inputs.parallel)
    return tables[0]["utterance_id"], list(map(utterance_texts, inputs.languages, tables))

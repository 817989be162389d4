"""What a head trains on and which texts an encoder must see for it: addresses only, no vectors.

`aligned_pairs` gathers a language pair's utterances, masked targets and negative pool, so that a head needs
one table per pair. `texts_to_encode` is the other side of the same contract.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.heads.contract import Need
from disent_core.storage.tables import SCHEMAS, conform, content_fingerprint, fingerprint
from disent_core.targets.alignment import align
from disent_core.text import text_keys
from disent_core.training.build_data import training_rows
from disent_core.training.data import TRAINING_SPLITS

_ALWAYS = ("corpus", "pair", "utterance_id", "split", "language", "key")
_NEEDED = {Need.MASKED_TARGETS: ("template_key", "residual_key"), Need.NEGATIVE_POOL: ("is_negative",)}


@dataclass(frozen=True)
class LanguageTables:
    """One corpus and language: its `utterances`, `masked_utterances` and `negative_pool`."""

    utterances: pa.Table
    masked: pa.Table
    pool: pa.Table


def aligned_pairs(pair: str, source: LanguageTables, target: LanguageTables, *, partial: bool = False) -> pa.Table:
    """The `aligned_pairs` of two languages of one corpus, in the order of the source's utterances.

    With `partial` utterances without a partner are left out.

    Raises:
        AlignmentError: if an utterance has no partner, or lies in another split.
    """
    rows = align(source.utterances, target.utterances, partial=partial)
    sides = {
        **_side("source", source, rows["left_row"]),
        **_side("target", target, rows["right_row"]),
    }
    table = pa.table(
        {
            "corpus": source.utterances["corpus"].take(rows["left_row"]),
            "pair": pa.repeat(pair, len(rows)),
            "utterance_id": rows["utterance_id"],
            "split": rows["split"],
            **sides,
        }
    )
    return conform(table, SCHEMAS["aligned_pairs"], "aligned_pairs")


def aligned_sentences(pairs: pa.Table, languages: tuple[str, str], *, is_turned: bool = False) -> pa.Table:
    """The `aligned_pairs` of a corpus of sentence pairs, which has neither masked texts nor negatives.

    Args:
        pairs: `sentence_pairs` of one pair.
        languages: of source and target of the result.
        is_turned: whether the corpus has them the other way round.
    """
    sides = ("target", "source") if is_turned else ("source", "target")
    none, no = pa.nulls(len(pairs), pa.string()), pa.repeat(pa.scalar(False), len(pairs))
    columns = {
        "corpus": pairs["corpus"],
        "pair": pa.repeat("-".join(languages), len(pairs)),
        "utterance_id": pairs["pair_id"],
        "split": pairs["split"],
    }
    for side, own, language in zip(("source", "target"), sides, languages, strict=True):
        columns |= {
            f"{side}_language": pa.repeat(language, len(pairs)),
            f"{side}_key": pairs[f"{own}_key"],
            f"{side}_template_key": none,
            f"{side}_residual_key": none,
            f"{side}_is_negative": no,
        }
    return conform(pa.table(columns), SCHEMAS["aligned_pairs"], "aligned_pairs")


def _side(side: str, tables: LanguageTables, rows: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    utterances = tables.utterances
    place = pc.index_in(utterances["utterance_id"], value_set=tables.masked["utterance_id"].combine_chunks())
    columns = {
        "language": utterances["language"],
        "key": utterances["text_key"],
        "template_key": tables.masked["template_key"].take(place),
        "residual_key": tables.masked["residual_key"].take(place),
        "is_negative": pc.is_in(utterances["utterance_id"], value_set=tables.pool["utterance_id"].combine_chunks()),
    }
    return {f"{side}_{name}": column.take(rows) for name, column in columns.items()}


def training_fingerprint(
    aligned: pa.Table,
    needs: frozenset[Need],
    templates: Sequence[pa.Table] = (),
    utterances: Sequence[pa.Table] = (),
) -> str:
    """Fingerprint of what a method with these needs trains on: other splits and columns don't matter to it.

    `templates` and `utterances` are the tables that it is given besides, see `heads.join.training_data`.
    """
    rows = training_rows(aligned, masked=Need.MASKED_TARGETS in needs)
    wanted = {*_ALWAYS, *(column for need in needs for column in _NEEDED.get(need, ()))}
    names = [name for name in rows.column_names if name.removeprefix("source_").removeprefix("target_") in wanted]
    pairs = content_fingerprint(rows.select(names))
    besides = [content_fingerprint(_training_rows(table)) for table in (*templates, *utterances)]
    return fingerprint(pairs, besides) if besides else pairs


@dataclass(frozen=True)
class TextPlan:
    """Texts by key that need a sentence vector, and the keys of those that need token states as well."""

    texts: Mapping[str, str]
    state_keys: frozenset[str]


def texts_to_encode(
    utterances: Sequence[pa.Table],
    masked: Sequence[pa.Table],
    template_pairs: Sequence[pa.Table],
    training_template_pairs: Sequence[pa.Table],
    needs: frozenset[Need],
    others: Sequence[tuple[pa.ChunkedArray, pa.ChunkedArray]] = (),
) -> TextPlan:
    """Distinct texts of one language that methods with these needs read, in training and in every task.

    Args:
        utterances: all corpora's `utterances` of the language.
        masked: `masked_utterances` of those that heads train on; only training reads them.
        template_pairs: their `template_pairs`, of which tasks read the texts.
        training_template_pairs: those that some methods train on.
        needs: of the methods that share the encoder.
        others: keys and texts of sentence pairs.
    """
    texts: dict[str, str] = {}
    for keys, own in others:
        texts |= _by_key(keys, own)
    for table in utterances:
        texts |= _by_key(table["text_key"], table["text"])
    trained_templates = training_template_pairs if Need.TEMPLATE_PAIRS in needs else ()
    for table in (*template_pairs, *trained_templates):
        for column in ("source_text", "target_text"):
            own = table[column].unique().to_pylist()
            texts |= dict(zip(text_keys(own), own, strict=True))
    states = frozenset(texts) if Need.TOKEN_STATES in needs else frozenset()
    if Need.MASKED_TARGETS in needs:
        for table in masked:
            trained = _of_training(table, utterances)
            texts |= _by_key(trained["template_key"], trained["template_text"])
            texts |= _by_key(trained["residual_key"], trained["residual_text"])
    return TextPlan(texts, states)


def _training_rows(table: pa.Table) -> pa.Table:
    return table.filter(pc.is_in(table["split"], value_set=pa.array(TRAINING_SPLITS)))


def _of_training(masked: pa.Table, utterances: Sequence[pa.Table]) -> pa.Table:
    """Rows of one corpus's `masked_utterances` whose utterance is for training."""
    own = (table for table in utterances if len(masked) and len(table) and table["corpus"][0] == masked["corpus"][0])
    ids = [_training_rows(table)["utterance_id"].combine_chunks() for table in own]
    return masked.filter(pc.is_in(masked["utterance_id"], value_set=ids[0])) if ids else masked


def _by_key(keys: pa.ChunkedArray, texts: pa.ChunkedArray) -> dict[str, str]:
    present = keys.is_valid()
    return dict(zip(keys.filter(present).to_pylist(), texts.filter(present).to_pylist(), strict=True))

"""Join two languages of a corpus into the table of aligned pairs that heads train on: text keys, no vectors.

The table joins utterances, masked texts and negative pool, so that a head reads one table per pair.
"""

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from disent_core.corpora.translations import check_intents
from disent_core.errors import AlignmentError, commas
from disent_core.storage.tables import SCHEMAS, conform


@dataclass(frozen=True)
class LanguageTables:
    """One corpus and language: its `utterances`, `masked_utterances` and `negative_pool`."""

    utterances: pa.Table
    masked: pa.Table
    pool: pa.Table


def aligned_pairs(pair: str, source: LanguageTables, target: LanguageTables, *, partial: bool = False) -> pa.Table:
    """Return the `aligned_pairs` of two languages of one corpus, in the order of the source's utterances.

    With `partial`, drop utterances without a partner. Reject languages if too many of their rows differ in intent.
    """
    rows = align(_text_keys(source), _text_keys(target), partial=partial)
    joined, where = rows.to_arrow(), f"corpus {_names(rows, 'source_corpus')}, {pair}"
    check_intents(joined["utterance_id"], joined["source_intent"], joined["target_intent"], where)
    rows = rows.rename({"source_corpus": "corpus", "source_split": "split"})
    rows = rows.drop("target_corpus", "target_split", "source_intent", "target_intent")
    return conform(rows.with_columns(pair=pl.lit(pair)).to_arrow(), SCHEMAS["aligned_pairs"], "aligned_pairs")


def aligned_sentences(pairs: pa.Table, languages: tuple[str, str], *, is_turned: bool = False) -> pa.Table:
    """Return the `aligned_pairs` of a corpus of sentence pairs, which has neither masked texts nor negatives.

    `languages` are the source and target of the result; with `is_turned` the corpus has them swapped.
    """
    sides = ("target", "source") if is_turned else ("source", "target")
    no_keys, not_negative = pa.nulls(len(pairs), pa.string()), pa.repeat(pa.scalar(False), len(pairs))
    columns = {
        "corpus": pairs["corpus"],
        "pair": pa.repeat("-".join(languages), len(pairs)),
        "utterance_id": pairs["pair_id"],
        "split": pairs["split"],
    }
    for side, corpus_side, language in zip(("source", "target"), sides, languages, strict=True):
        columns |= {
            f"{side}_language": pa.repeat(language, len(pairs)),
            f"{side}_key": pairs[f"{corpus_side}_key"],
            f"{side}_template_key": no_keys,
            f"{side}_residual_key": no_keys,
            f"{side}_is_negative": not_negative,
        }
    return conform(pa.table(columns), SCHEMAS["aligned_pairs"], "aligned_pairs")


def _text_keys(tables: LanguageTables) -> pl.DataFrame:
    """Return the text keys of the utterances, in order, and whether they are in the pool."""
    names = ["corpus", "language", "utterance_id", "split", "intent", "text_key"]
    utterances = pl.DataFrame(tables.utterances.select(names)).rename({"text_key": "key"})
    masked = pl.DataFrame(tables.masked.select(["utterance_id", "template_key", "residual_key"]))
    pool = pl.Series(tables.pool["utterance_id"])
    return utterances.join(masked, on="utterance_id", how="left", maintain_order="left").with_columns(
        is_negative=pl.col("utterance_id").is_in(pool.implode())
    )


_REMEDY = "Take both languages from the same release of the corpus"


def align(source: pl.DataFrame, target: pl.DataFrame, *, partial: bool = False) -> pl.DataFrame:
    """Join utterances of two languages by `utterance_id`, in the order of the source.

    Every other column becomes `source_NAME` and `target_NAME`.
    """
    for side in (source, target):
        ids = side["utterance_id"]
        repeated = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
        if len(repeated):
            raise _error(side, side, f"{len(repeated)} ids occur more than once, e.g. {commas(repeated.head(3))}")
    if not partial:
        _reject_unpaired(source, target)
        _reject_unpaired(target, source)
    left, right = (
        rows.select("utterance_id", pl.exclude("utterance_id").name.prefix(f"{side}_"))
        for side, rows in (("source", source), ("target", target))
    )
    rows = left.join(right, on="utterance_id", maintain_order="left")
    ids = rows.filter(pl.col("source_split") != pl.col("target_split"))["utterance_id"]
    if len(ids):
        problem = f"{len(ids)} of {len(source)} ids are in different splits, e.g. {commas(ids.head(3))}"
        raise _error(source, target, problem)
    return rows


def _reject_unpaired(rows: pl.DataFrame, partners: pl.DataFrame) -> None:
    unpaired = rows.join(partners, on="utterance_id", how="anti", maintain_order="left")["utterance_id"]
    if len(unpaired):
        ids = f"{len(unpaired)} of {len(rows)} ids of {_names(rows, 'language')}"
        among = f"the {len(partners)} of {_names(partners, 'language')}"
        raise _error(rows, partners, f"{ids} have no partner among {among}, e.g. {commas(unpaired.head(3))}")


def _error(source: pl.DataFrame, target: pl.DataFrame, problem: str) -> AlignmentError:
    languages = " and ".join(dict.fromkeys(_names(rows, "language") for rows in (source, target)))
    return AlignmentError(f"corpus {_names(source, 'corpus')}, {languages}: {problem}. {_REMEDY}")


def _names(rows: pl.DataFrame, column: str) -> str:
    return ", ".join(rows[column].unique(maintain_order=True)) or "(empty)"

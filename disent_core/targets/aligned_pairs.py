"""Make the table of aligned pairs that heads train on: text keys, no vectors.

It joins a language pair's utterances, masked texts and negative pool, so that a head needs one table per pair.
"""

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from disent_core.storage.tables import SCHEMAS, conform
from disent_core.targets.alignment import align


@dataclass(frozen=True)
class LanguageTables:
    """One corpus and language: its `utterances`, `masked_utterances` and `negative_pool`."""

    utterances: pa.Table
    masked: pa.Table
    pool: pa.Table


def aligned_pairs(pair: str, source: LanguageTables, target: LanguageTables, *, partial: bool = False) -> pa.Table:
    """Return the `aligned_pairs` of two languages of one corpus, in the order of the source's utterances.

    With `partial`, utterances without a partner are dropped.

    Raises:
        AlignmentError: if an utterance has no partner, or its partner is in another split.
    """
    rows = align(_text_keys(source), _text_keys(target), partial=partial)
    rows = rows.rename({"source_corpus": "corpus", "source_split": "split"}).drop("target_corpus", "target_split")
    return conform(rows.with_columns(pair=pl.lit(pair)).to_arrow(), SCHEMAS["aligned_pairs"], "aligned_pairs")


def aligned_sentences(pairs: pa.Table, languages: tuple[str, str], *, is_turned: bool = False) -> pa.Table:
    """Return the `aligned_pairs` of a corpus of sentence pairs, which has neither masked texts nor negatives.

    Args:
        pairs: `sentence_pairs` of one pair.
        languages: of source and target of the result.
        is_turned: whether the corpus has source and target swapped.
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
    """Return text keys of the utterances, in their order, and whether they are in the pool."""
    names = ["corpus", "language", "utterance_id", "split", "text_key"]
    utterances = pl.DataFrame(tables.utterances.select(names)).rename({"text_key": "key"})
    masked = pl.DataFrame(tables.masked.select(["utterance_id", "template_key", "residual_key"]))
    pool = pl.Series(tables.pool["utterance_id"])
    return utterances.join(masked, on="utterance_id", how="left", maintain_order="left").with_columns(
        is_negative=pl.col("utterance_id").is_in(pool.implode())
    )

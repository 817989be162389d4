"""What a head trains on: addresses only, no vectors.

`aligned_pairs` gathers a language pair's utterances, masked targets and negative pool, so that a head needs
one table per pair.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.storage.tables import SCHEMAS, conform
from disent_core.targets.alignment import align


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

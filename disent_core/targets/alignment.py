"""Two languages of one corpus, side by side."""

import polars as pl

from disent_core.errors import AlignmentError

_REMEDY = "Take both languages from the same release of the corpus"


def align(source: pl.DataFrame, target: pl.DataFrame, *, partial: bool = False) -> pl.DataFrame:
    """Utterances of two languages joined by `utterance_id`, in the order of the source.

    Args:
        source: one language, with at least the columns corpus, language, utterance_id and split (strings).
        target: the other language, with the same columns.
        partial: leave out utterances that only one language has.

    Returns:
        the column `utterance_id`, and every other column as `source_NAME` and `target_NAME`.

    Raises:
        AlignmentError: if an id occurs twice, is on one side only, or is in another split on the other side.
    """
    for side in (source, target):
        _reject_repeated(side)
    if not partial:
        _reject_lone(source, target)
        _reject_lone(target, source)
    rows = _named(source, "source").join(_named(target, "target"), on="utterance_id", maintain_order="left")
    odd = rows.filter(pl.col("source_split") != pl.col("target_split"))["utterance_id"]
    if len(odd):
        found = f"{len(odd)} of {len(source)} ids are in another split, e.g. {odd.head(3).to_list()}"
        raise _error(source, target, found)
    return rows


def _named(rows: pl.DataFrame, side: str) -> pl.DataFrame:
    return rows.rename({name: f"{side}_{name}" for name in rows.columns if name != "utterance_id"})


def _reject_repeated(rows: pl.DataFrame) -> None:
    ids = rows["utterance_id"]
    if ids.n_unique() < len(ids):
        odd = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
        raise _error(rows, rows, f"{len(odd)} ids occur more than once, e.g. {odd.head(3).to_list()}")


def _reject_lone(one: pl.DataFrame, other: pl.DataFrame) -> None:
    lone = one.join(other, on="utterance_id", how="anti", maintain_order="left")["utterance_id"]
    if len(lone):
        ids = f"{len(lone)} of {len(one)} ids of {_names(one, 'language')}"
        pool = f"the {len(other)} of {_names(other, 'language')}"
        raise _error(one, other, f"{ids} have no partner among {pool}, e.g. {lone.head(3).to_list()}")


def _error(one: pl.DataFrame, other: pl.DataFrame, found: str) -> AlignmentError:
    languages = " and ".join(dict.fromkeys(_names(rows, "language") for rows in (one, other)))
    return AlignmentError(f"corpus {_names(one, 'corpus')}, {languages}: {found}. {_REMEDY}")


def _names(rows: pl.DataFrame, column: str) -> str:
    return ", ".join(rows[column].unique(maintain_order=True)) or "(empty)"

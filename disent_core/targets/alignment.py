"""Join two languages of one corpus by utterance id."""

import polars as pl

from disent_core.errors import AlignmentError

_REMEDY = "Take both languages from the same release of the corpus"


def align(source: pl.DataFrame, target: pl.DataFrame, *, partial: bool = False) -> pl.DataFrame:
    """Join utterances of two languages by `utterance_id`, in the order of the source.

    Args:
        source: one language, with at least the columns corpus, language, utterance_id and split (strings).
        target: the other language, with the same columns.
        partial: drop utterances that only one language has.

    Returns:
        The column `utterance_id`, and every other column as `source_NAME` and `target_NAME`.

    Raises:
        AlignmentError: if an id occurs twice, is on one side only, or is in another split on the other side.
    """
    for side in (source, target):
        _reject_repeated(side)
    if not partial:
        _reject_unpaired(source, target)
        _reject_unpaired(target, source)
    rows = _named(source, "source").join(_named(target, "target"), on="utterance_id", maintain_order="left")
    ids = rows.filter(pl.col("source_split") != pl.col("target_split"))["utterance_id"]
    if len(ids):
        problem = f"{len(ids)} of {len(source)} ids are in another split, e.g. {ids.head(3).to_list()}"
        raise _error(source, target, problem)
    return rows


def _named(rows: pl.DataFrame, side: str) -> pl.DataFrame:
    return rows.rename({name: f"{side}_{name}" for name in rows.columns if name != "utterance_id"})


def _reject_repeated(rows: pl.DataFrame) -> None:
    ids = rows["utterance_id"]
    if ids.n_unique() < len(ids):
        repeated = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
        raise _error(rows, rows, f"{len(repeated)} ids occur more than once, e.g. {repeated.head(3).to_list()}")


def _reject_unpaired(rows: pl.DataFrame, partners: pl.DataFrame) -> None:
    unpaired = rows.join(partners, on="utterance_id", how="anti", maintain_order="left")["utterance_id"]
    if len(unpaired):
        ids = f"{len(unpaired)} of {len(rows)} ids of {_names(rows, 'language')}"
        among = f"the {len(partners)} of {_names(partners, 'language')}"
        raise _error(rows, partners, f"{ids} have no partner among {among}, e.g. {unpaired.head(3).to_list()}")


def _error(source: pl.DataFrame, target: pl.DataFrame, problem: str) -> AlignmentError:
    languages = " and ".join(dict.fromkeys(_names(rows, "language") for rows in (source, target)))
    return AlignmentError(f"corpus {_names(source, 'corpus')}, {languages}: {problem}. {_REMEDY}")


def _names(rows: pl.DataFrame, column: str) -> str:
    return ", ".join(rows[column].unique(maintain_order=True)) or "(empty)"

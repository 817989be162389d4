"""Two languages of one corpus, side by side."""

from collections import Counter

import pyarrow as pa

from disent_core.errors import AlignmentError

_REMEDY = "Take both languages from the same release of the corpus"


def align(left: pa.Table, right: pa.Table, *, partial: bool = False) -> pa.Table:
    """Rows of two `utterances` tables joined by utterance_id, in the order of the left one.

    With `partial` utterances of one side only are left out.

    Returns:
        a table of utterance_id, split, left_row and right_row (int64): row numbers in the two tables.

    Raises:
        AlignmentError: if an id occurs twice, is on one side only, or is in another split on the other side.
    """
    left_rows, right_rows = _row_of_id(left), _row_of_id(right)
    if not partial:
        _reject_lone(left, right, [key for key in left_rows if key not in right_rows])
        _reject_lone(right, left, [key for key in right_rows if key not in left_rows])
    shared = [key for key in left_rows if key in right_rows]
    own, partners = (pa.array([rows[key] for key in shared], pa.int64()) for rows in (left_rows, right_rows))
    splits, others = left["split"].take(own), right["split"].take(partners)
    pairs = zip(shared, splits.to_pylist(), others.to_pylist(), strict=True)
    if odd := [key for key, split, other in pairs if split != other]:
        raise _error(left, right, f"{len(odd)} of {len(left)} ids are in another split, e.g. {odd[:3]}")
    return pa.table(
        {
            "utterance_id": left["utterance_id"].take(own),
            "split": splits,
            "left_row": own,
            "right_row": partners,
        }
    )


def _row_of_id(table: pa.Table) -> dict[str, int]:
    keys = table["utterance_id"].to_pylist()
    rows = {key: row for row, key in enumerate(keys)}
    if len(rows) < len(keys):
        odd = [key for key, count in Counter(keys).items() if count > 1]
        raise _error(table, table, f"{len(odd)} ids occur more than once, e.g. {odd[:3]}")
    return rows


def _reject_lone(one: pa.Table, other: pa.Table, lone: list[str]) -> None:
    if lone:
        ids = f"{len(lone)} of {len(one)} ids of {_names(one, 'language')}"
        pool = f"the {len(other)} of {_names(other, 'language')}"
        raise _error(one, other, f"{ids} have no partner among {pool}, e.g. {lone[:3]}")


def _error(one: pa.Table, other: pa.Table, found: str) -> AlignmentError:
    languages = " and ".join(dict.fromkeys(_names(table, "language") for table in (one, other)))
    return AlignmentError(f"corpus {_names(one, 'corpus')}, {languages}: {found}. {_REMEDY}")


def _names(table: pa.Table, column: str) -> str:
    return ", ".join(table[column].unique().to_pylist()) or "(empty)"

"""Check that rows joined as translations have the same intents."""

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.errors import AlignmentError

MOST_OTHER_INTENTS = 0.2
"""Largest share of the joined rows. Arabic xSID has 0.03; rows joined by wrong ids have 0.6 to 0.8."""


def check_intents(ids: pa.ChunkedArray, left: pa.ChunkedArray, right: pa.ChunkedArray, where: str) -> None:
    """Reject translations if too many of them have two different intents; errors begin with `where`."""
    differs = pc.fill_null(pc.not_equal(left, right), False)
    compared = pc.sum(pc.and_(pc.is_valid(left), pc.is_valid(right))).as_py() or 0
    count = pc.sum(differs).as_py() or 0
    if count <= MOST_OTHER_INTENTS * compared:
        return
    row = pc.index(differs, True).as_py()
    raise AlignmentError(
        f"{where}: {count} of {compared} rows that should be translations ({count / compared:.0%}; "
        f"the limit is {MOST_OTHER_INTENTS:.0%}) have different intents, e.g. {ids[row].as_py()!r}: "
        f"{left[row].as_py()!r} and {right[row].as_py()!r}. Its ids join the wrong rows: correct the ids of its files, "
        "or leave one of the languages out (languages of [[corpora]])"
    )

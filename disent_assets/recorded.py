"""Read and write the tables that a run keeps of itself: what its steps took, and in which state its assets are."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from disent_core.errors import TableError
from disent_core.experiment.workspace import Workspace
from disent_core.storage.checksums import ignore_damaged
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table, rows_table, write_table


def recorded(workspace: Workspace, table: tuple[str, str, str]) -> pa.Table:
    """The table as it was last written, by stage, name and partition; no rows if there is none, or it is damaged."""
    schema, path = SCHEMAS[table[1]], workspace.table(*table)
    try:
        found = ignore_damaged(lambda: read_table(path, schema))
    except TableError:  # nothing was recorded yet
        found = None
    return schema.empty_table() if found is None else found


def record(workspace: Workspace, table: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the rows of the table; the caller has its lock."""
    name = table[1]
    write_table(workspace.table(*table), rows_table(rows, name), SCHEMAS[name], inputs=fingerprint(len(rows)))

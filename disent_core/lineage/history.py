"""Keep the history of all metrics: each refresh adds a file with its new rows, and files never change.

`tables/warehouse/history/000007-000007.parquet` has the rows of refresh 7. Refreshes are numbered, because clocks can
be set back. When there are 64 such files, they become one, `000001-000064.parquet`. A file whose numbers lie within
those of another was left by a kill during that merge; it is ignored, and removed by the next refresh.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from disent_core import version
from disent_core.errors import DisentError
from disent_core.lineage.evaluation_inputs import Provenance, provenance
from disent_core.lineage.items_before import keep_items, with_tests
from disent_core.lineage.workspace import Workspace
from disent_core.storage.results import list_results, none_if_damaged, read_result, remove_result
from disent_core.storage.schemas import SUBJECT
from disent_core.storage.tables import SCHEMAS, conform, content_of, fingerprint, read_parquet, write_table

NAME = "metric_history"
SCHEMA = SCHEMAS[NAME]
KEY = (*SUBJECT, "seed", "problem")
"""Columns that identify a number from refresh to refresh."""
MEASURED = ("value", "ci_low", "ci_high", "n")
ORIGIN = ("code", "data", "weights", "vectors")
COUNTS = ("pool_size", "pool_duplicates", "source_distractors", "target_distractors", "replaced_share")
"""Settings of a metric that follow from the data: a number keeps its identity if an edit of a corpus changes them."""
EVENTS = ("new", "changed", "confirmed", "ended")
BEGAN = "began_at"
MERGED_FILES = 64
_FILE = re.compile(r"(\d+)-(\d+)\.parquet(\.damaged)?")
_LOST = (
    "Its rows can't be made again: put the file back from a backup and delete the damaged one, "
    "or delete the damaged one to accept the loss"
)


# --- files ------------------------------------------------------------------------------------------------


class HistoryFile(NamedTuple):
    """A file of the history, and its first and last refresh."""

    first: int
    last: int
    path: Path


@dataclass(frozen=True)
class History:
    """The rows of all refreshes of a run, in order, and the names of the immutable files that have them."""

    rows: pa.Table
    files: tuple[str, ...]
    damaged: int
    """Number of damaged files that were set aside and still exist."""


def history_files(workspace: Workspace) -> list[HistoryFile]:
    """Return the files of the history, in order of refreshes, without files contained in others."""
    files: list[HistoryFile] = []
    for file in sorted(_files(workspace, damaged=False), key=lambda file: (file.first, -file.last)):
        if not files or file.last > files[-1].last:
            files.append(file)
    return files


def _files(workspace: Workspace, *, damaged: bool) -> list[HistoryFile]:
    folder = workspace.table("warehouse", "history", "any").parent
    named = [(path, _FILE.fullmatch(path.name)) for path in list_results(folder, "*.parquet*")]
    return [
        HistoryFile(int(match[1]), int(match[2]), path) for path, match in named if match and bool(match[3]) == damaged
    ]


def read_history(workspace: Workspace) -> History:
    """Read the whole history; a damaged file is set aside and logged.

    Another process may merge files meanwhile, so files are listed again until all have been read.
    """
    tables: dict[Path, pa.Table] = {}
    while not tables.keys() >= set(paths := [file.path for file in history_files(workspace)]):
        for path in paths:
            if (data := none_if_damaged(lambda path=path: read_result(path), _LOST)) is not None:
                tables[path] = _rows_of(pq.read_table(pa.BufferReader(data)), path)  # noqa: TID251 - verified bytes
    rows = pa.concat_tables([SCHEMA.empty_table(), *(tables[path] for path in paths)])
    return History(rows, tuple(path.name for path in paths), len(_files(workspace, damaged=True)))


def _rows_of(table: pa.Table, path: Path) -> pa.Table:
    """Return the rows of a file; older files lack the start of their refresh and the tests of changes."""
    for field in SCHEMA:
        if field.nullable and field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return conform(table, SCHEMA, str(path))


def append(workspace: Workspace, rows: pa.Table, *, inputs: str) -> None:
    """Write the `new_rows` of a refresh as one file, unless there are none, and keep the items of their numbers.

    The caller holds the warehouse's lock.
    """
    if rows.num_rows:
        refresh = rows["refresh"][0].as_py()
        write_table(_path(workspace, refresh, refresh), rows, SCHEMA, inputs=inputs)
    keep_items(workspace)
    if not _files(workspace, damaged=True):  # otherwise a file that is put back later could pass for a leftover
        _merge(workspace)


def _merge(workspace: Workspace) -> None:
    """Merge the files of single refreshes if there are too many, and remove files contained in others."""
    single = [file for file in history_files(workspace) if file.first == file.last]
    if len(single) >= MERGED_FILES:
        rows = pa.concat_tables([_rows_of(read_parquet(file.path, _LOST), file.path) for file in single])
        merged = _path(workspace, single[0].first, single[-1].last)
        write_table(merged, rows, SCHEMA, inputs=fingerprint([file.path.name for file in single]))
    for file in set(_files(workspace, damaged=False)) - set(history_files(workspace)):
        remove_result(file.path)


def _path(workspace: Workspace, first: int, last: int) -> Path:
    return workspace.table("warehouse", "history", f"{first:06}-{last:06}")


# --- rows -------------------------------------------------------------------------------------------------


def new_rows(
    workspace: Workspace,
    history: History,
    metrics: pa.Table,
    *,
    recorded_at: datetime,
    began_at: datetime | None = None,
    run_id: str,
) -> pa.Table:
    """Return the rows that a refresh adds to the history; see `events` for their kinds.

    `metrics` has all current rows, `began_at` is the start of the command that runs the refresh, if known, and `run_id`
    is Dagster's.
    """
    added = events(pl.DataFrame(history.rows), pl.DataFrame(metrics))
    known = [*_files(workspace, damaged=False), *_files(workspace, damaged=True)]
    stamp = {
        "refresh": 1 + max((file.last for file in known), default=0),
        "recorded_at": recorded_at,
        BEGAN: began_at,
        "run_id": run_id,
        "config": workspace.config.path.name,
        "disent_version": version(),
    }
    measured = added.filter(pl.col("fingerprint").is_not_null())
    origins = _origins(workspace, measured.select("encoder", "method").unique(maintain_order=True).rows())
    added = added.with_columns(
        *(
            pl.col("fingerprint")
            .replace_strict({key: getattr(value, part) for key, value in origins.items()}, default=None)
            .cast(pl.String)
            .alias(part)
            for part in ORIGIN
        ),
        *(pl.lit(value).alias(name) for name, value in stamp.items()),
    )
    added = with_tests(workspace, history.rows, added)
    return conform(added.to_arrow(compat_level=pl.CompatLevel.oldest()), SCHEMA, NAME)


def events(history: pl.DataFrame, metrics: pl.DataFrame) -> pl.DataFrame:
    """Compare the current metrics with the last row of each number.

    A number is `new`, `changed` (its value, interval or n), `confirmed` (the same from other inputs) or `ended` (gone,
    without a value). A number made again from equal inputs is left out.
    """
    columns = [*KEY, "settings", *MEASURED, "fingerprint"]
    last = history.unique(KEY, keep="last", maintain_order=True).select(columns)
    joined = (
        _with_problems(metrics)
        .select(columns)
        .join(last, on=KEY, how="full", nulls_equal=True, coalesce=True, suffix="_before", maintain_order="left_right")
    )
    is_there, was_there = (pl.col(name).is_not_null() for name in ("fingerprint", "fingerprint_before"))
    event = (
        pl.when(was_there & ~is_there).then(pl.lit("ended"))
        .when(~is_there).then(None)
        .when(~was_there).then(pl.lit("new"))
        .when(_differs(MEASURED)).then(pl.lit("changed"))
        .when(_differs(("settings", "fingerprint"))).then(pl.lit("confirmed"))
    )  # fmt: skip
    named = joined.with_columns(event.alias("event"), pl.coalesce("settings", "settings_before").alias("settings"))
    return named.filter(pl.col("event").is_not_null()).select("event", *columns)


def _differs(names: Iterable[str]) -> pl.Expr:
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in names)


def _with_problems(metrics: pl.DataFrame) -> pl.DataFrame:
    """Add the column `problem`: the settings without `COUNTS`, numbered where several numbers share them."""
    problem_of = {}
    for text in metrics["settings"].unique():
        kept = {name: value for name, value in json.loads(text).items() if name not in COUNTS}
        problem_of[text] = json.dumps(kept, sort_keys=True)
    problems = pl.col("settings").replace_strict(problem_of, return_dtype=pl.String)
    index = pl.int_range(pl.len()).over(*KEY)
    numbered = pl.when(index > 0).then(pl.format("{} #{}", "problem", index + 1)).otherwise("problem")
    return (
        metrics.with_columns(problems.alias("problem"))
        .sort("settings", maintain_order=True)
        .with_columns(numbered.alias("problem"))
    )


def _origins(workspace: Workspace, methods: Iterable[tuple[str, str]]) -> Mapping[str, Provenance]:
    """Return, by fingerprint, what the current metrics of methods (encoder and name) are made from.

    A row made from older code or data has another fingerprint, so its origin is unknown.
    """
    config, content = workspace.config, cache(content_of)
    origins: dict[str, Provenance] = {}
    for encoder, name in methods:
        method = config.methods.get(name)
        if encoder not in config.encoders or method is None:
            continue
        for training_set in config.training_sets_of(method):
            try:
                origin = provenance(workspace, encoder, method, training_set, content)
            except (DisentError, OSError):  # an input file is gone
                continue
            origins[origin.inputs] = origin
    return origins

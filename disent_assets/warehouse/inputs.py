"""Give the warehouse the tables of a run: their rows, or the files of a large one, over which it has a view.

A view reads its files at each query, so they have to stay as they were when the warehouse was built. They lie in a
folder beside it (`warehouse.files`), named by their SHA-256: hard links, which take no space and keep the rows when
the table is replaced.
"""

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from disent.query import FOLDER, file_literal, files_folder, text_literal
from disent_assets.warehouse.sql_files import Relation
from disent_core.errors import TableError, located
from disent_core.storage.files import storage_errors
from disent_core.storage.results import fetch, sha256_of
from disent_core.storage.tables import SCHEMAS

INPUTS = (
    "metrics",
    "rankings",
    "comparisons",
    "mteb_results",
    "configured_methods",
    "encoders",
    "scored_embeddings",
    "utterances",
    "sentence_pairs",
    "negative_pool",
    "masked_utterances",
    "template_pairs",
    "training_template_pairs",
    "parallel_mates",
    "code_switched_pairs",
    "training_curve",
    "training_costs",
    "metric_history",
    "asset_state",
    "step_costs",
)
"""Tables that the warehouse is built from, by their names in `SCHEMAS`."""

# --- building ---------------------------------------------------------------------------------------------


def attach_inputs(
    connection: duckdb.DuckDBPyConnection, inputs: Mapping[str, Sequence[Path] | pa.Table], published: Iterable[str]
) -> None:
    """Create `inputs.NAME` for each name of `INPUTS`, and for `published`, in memory: not in the file.

    A name without rows is an empty table, one with files a view over exactly these.
    """
    if unknown := sorted(set(inputs) - {*INPUTS, *published}):
        raise TableError(f"{unknown} are not inputs of the warehouse; choose from {list(INPUTS)}")
    connection.execute("attach ':memory:' as inputs")
    for name in (*INPUTS, *published):
        rows = inputs.get(name, ())
        if isinstance(rows, pa.Table):
            _input_table(connection, name, rows)
        elif rows:
            for path in rows:
                _require_schema(fetch(path), name)
            connection.execute(f"create view inputs.{name} as from {_scan(map(file_literal, rows))}")
        else:
            _input_table(connection, name, SCHEMAS[name].empty_table())


def _input_table(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    connection.register("rows", rows)
    connection.execute(f"create table inputs.{name} as from rows")
    connection.unregister("rows")


def _require_schema(path: Path, name: str) -> None:
    try:
        schema = pq.read_schema(path)  # noqa: TID251 - a fetched file
    except FileNotFoundError as error:
        raise TableError(located(path, None, "this table does not exist", "Materialise its asset")) from error
    except (pa.ArrowInvalid, OSError) as error:
        remedy = "Delete the file and materialise its asset again"
        raise TableError(located(path, None, f"this table is damaged ({error})", remedy)) from error
    if not schema.equals(SCHEMAS[name]):
        odd = sorted(str(field) for field in {*schema} ^ {*SCHEMAS[name]})
        remedy = "Materialise its asset again"
        raise TableError(located(path, None, f"the schema is not that of {name}, see {odd[:4]}", remedy))


def _scan(files: Iterable[str]) -> str:
    return f"read_parquet([{', '.join(files)}], hive_partitioning = false)"


# --- views over files -------------------------------------------------------------------------------------


def keep_files(paths: Iterable[Path], database: Path) -> tuple[str, ...]:
    """Keep the files beside the database as they are now, for its views; return their names."""
    return tuple(_keep(path, files_folder(database)) for path in paths)


def over_files(relation: Relation, files: Mapping[str, Sequence[str]], database: Path) -> Relation:
    """The relation; as a view if it is a table that only chooses columns of one of these inputs.

    The view finds the files beside the database, also where both were moved if the program tells it the folder.
    """
    name = relation.chosen_from
    if name not in files:
        return relation
    folder = f"coalesce(getvariable('{FOLDER}'), {file_literal(database.parent)})"
    below = (text_literal(f"/{files_folder(database).name}/{file}") for file in files[name])
    before, _, _ = relation.sql.rpartition(f"inputs.{name}")
    return replace(relation, kind="view", sql=before + _scan(f"{folder} || {path}" for path in below))


def _keep(path: Path, folder: Path) -> str:
    """Link to a file under its SHA-256, or copy it if the file system has no links; return the name."""
    kept = folder / f"{sha256_of(path)}.parquet"
    with storage_errors(kept):
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_whole(kept):
            kept.unlink(missing_ok=True)
            try:
                kept.hardlink_to(path)
            except OSError:
                shutil.copyfile(path, kept)
    return kept.name


def _is_whole(kept: Path) -> bool:
    return kept.is_file() and sha256_of(kept) == kept.stem


def are_whole(database: Path, files: Iterable[str]) -> bool:
    """Whether the files that the views read are there, as they were."""
    return all(_is_whole(files_folder(database) / name) for name in files)


def remove_others(database: Path, files: Collection[str]) -> None:
    """Remove the files that neither the warehouse nor the one before it reads."""
    for path in files_folder(database).glob("*"):
        if path.name not in files:
            path.unlink(missing_ok=True)

"""Test the changes of a refresh: compare each number's items with those from the previous refresh.

Outcomes are replaced whenever a method is measured again. So each refresh keeps the outcomes of the numbers that rank
methods in `tables/warehouse/items_before`, one file for each of `evaluation/outcomes`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa

from disent_core.evaluation.comparisons import compare
from disent_core.evaluation.metrics.statistics import holm
from disent_core.lineage.evaluation_inputs import ranked_by
from disent_core.lineage.workspace import Workspace
from disent_core.storage.results import list_results, none_if_damaged, remove_result
from disent_core.storage.schemas import SUBJECT
from disent_core.storage.tables import SCHEMAS, read_info, read_table, write_table

OTHER_TEXTS, UNKNOWN = "none: other texts", "none: items unknown"
"""Values in place of a test's name."""
_SCHEMA = SCHEMAS["outcomes"]
_NUMBER = ["task", "dataset", "encoder", "evaluated_on", "embedding", "metric", "settings"]
_TESTED = {"difference_low": pl.Float64, "difference_high": pl.Float64, "p_value": pl.Float64, "test": pl.String}


def keep_items(workspace: Workspace) -> None:
    """Keep the current items for the next refresh; unchanged files are not written.

    The caller holds the warehouse's lock.
    """
    written = set[Path]()
    for path, kept, inputs in _files(workspace):
        if _inputs(kept) != inputs:
            write_table(kept, _arrow(_read(path).filter(_is_ranked(workspace))), _SCHEMA, inputs=inputs)
        written.add(kept)
    folder = workspace.table("warehouse", "items_before", "any").parent
    for path in set(list_results(folder, "**/*.parquet")) - written:
        remove_result(path)


def with_tests(workspace: Workspace, history: pa.Table, added: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that a refresh adds to the history, with a paired test of each changed number that ranks methods.

    Before and after are tested like two methods (`comparisons.compare`), and p is corrected by Holm over the refresh.
    Their items must be of the same texts: equal in number, from tables with the same content.
    """
    key, same = [*SUBJECT, "seed", "problem"], ["data", "n", "settings"]
    before = pl.DataFrame(history).unique(key, keep="last", maintain_order=True).select(*key, *same, "fingerprint")
    added = added.with_row_index("row")
    changed = added.filter(
        pl.col("event") == "changed", pl.col("seed").is_null(), pl.col("ci_low").is_not_null(), _is_ranked(workspace)
    ).join(before, on=key, how="left", nulls_equal=True, suffix="_before")
    are_same = pl.all_horizontal(pl.col(name) == pl.col(f"{name}_before") for name in same)
    comparable = changed.filter(are_same)
    tests = [pl.DataFrame(schema={"row": added.schema["row"], **_TESTED})]
    for path, kept, inputs in _files(workspace) if len(comparable) else ():
        of_both = pl.col("fingerprint") == inputs, pl.col("fingerprint_before") == (_inputs(kept) or "")
        if len(numbers := comparable.filter(*of_both)):
            tests.append(_compared(workspace, numbers, path, kept))
    tested = pl.concat(tests)
    tested = tested.with_columns(pl.Series("p_holm", holm(tested["p_value"].to_numpy())))
    reason = pl.when(~are_same).then(pl.lit(OTHER_TEXTS)).otherwise(pl.lit(UNKNOWN))
    named = changed.select("row", reason.alias("reason")).join(tested, on="row", how="left")
    named = named.with_columns(pl.coalesce("test", "reason").alias("test")).drop("reason")
    return added.join(named, on="row", how="left", maintain_order="left").drop("row")


def _compared(workspace: Workspace, numbers: pl.DataFrame, path: Path, kept: Path) -> pl.DataFrame:
    config = workspace.config.evaluation
    # `compare` takes one embedding per system, and compares systems with the same training set.
    sides = [
        _read(file)
        .join(numbers, on=_NUMBER, how="semi")
        .with_columns(pl.lit(name).alias("method"), pl.col("embedding").alias("trained_on"))
        for name, file in (("after", path), ("before", kept))
    ]
    tests = compare(
        map(_arrow, sides),
        ranked_by(workspace.config),
        samples=config.bootstrap_samples,
        seed=config.bootstrap_seed,
        over=config.intervals,
        fingerprint="",
        created_at=datetime.now(UTC),
    )
    renamed = {"embedding_a": "embedding", "ci_low": "difference_low", "ci_high": "difference_high"}
    return pl.DataFrame(tests).rename(renamed).join(numbers.select("row", *_NUMBER), on=_NUMBER).select("row", *_TESTED)


def _files(workspace: Workspace) -> Iterator[tuple[Path, Path, str]]:
    """Yield each method's outcomes file, the file that keeps its items, and the fingerprint of its inputs."""
    for encoder, method, training_set in workspace.config.measured():
        of = (encoder, method.name, training_set)
        path = workspace.table("evaluation", "outcomes", *of)
        if (inputs := _inputs(path)) is not None:
            yield path, workspace.table("warehouse", "items_before", *of), inputs


def _inputs(path: Path) -> str | None:
    info = none_if_damaged(lambda: read_info(path))
    return info and info.inputs_hash


def _is_ranked(workspace: Workspace) -> pl.Expr:
    """Return whether a number ranks methods: it has a ranking embedding and no hubness correction."""
    by = pl.any_horizontal(
        (pl.col("task") == task) & pl.col("embedding").is_in(names)
        for task, names in ranked_by(workspace.config).items()
    )
    return by & (pl.col("settings").str.json_path_match("$.hubness").fill_null("none") == "none")


def _read(path: Path) -> pl.DataFrame:
    return pl.DataFrame(read_table(path, _SCHEMA))


def _arrow(rows: pl.DataFrame) -> pa.Table:
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())

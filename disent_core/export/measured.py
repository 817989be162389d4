"""What a run has measured of a head, for its card."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disent_core.export.card import Measured
from disent_core.export.record import RECORD, read_record
from disent_core.lineage.headline import LANGUAGE
from disent_core.lineage.saved_heads import SavedHead
from disent_core.storage.results import fetch, list_results

_NAMES = ("task", "dataset", "evaluated_on", "embedding", "metric")
_MAIN = ("accuracy_at_1", "map", "spearman", "span_f1", "accuracy")
"""Metrics of the figures in `experiment.headline`."""
_VALUES = ("value", "ci_low", "ci_high", "n")


def measured_of(head: SavedHead, seed: int | None) -> Sequence[Measured]:
    """Return the numbers with an interval that the history of the head's run has for these weights and this seed.

    Figures of other weights under the same name are left out. There are none of a head outside a folder of results; an
    exported folder keeps those that it was written with.
    """
    if head.path.name == RECORD:
        return [Measured(**row) for row in read_record(head.path.parent)["measured"]]
    files = list_results(head.path.resolve().parents[3] / "tables" / "warehouse" / "history", "[!.]*.parquet")
    latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    tables = (pq.read_table(fetch(file)) for file in files)  # noqa: TID251 - fetched files
    for row in sorted((row for table in tables for row in _rows(table, head)), key=lambda row: row["refresh"]):
        latest[(*(row[name] for name in _NAMES), row["settings"], row["seed"])] = row
    kept = [row for row in latest.values() if row["seed"] == seed and _is_plain(row)]
    return [
        Measured(**{name: row[name] for name in (*_NAMES, *_VALUES)}, gold=_settings(row).get("gold", ""))
        for row in sorted(kept, key=_order)
    ]


def _rows(table: pa.Table, head: SavedHead) -> list[dict[str, Any]]:
    wanted = pc.equal(table["weights"], head.content) if "weights" in table.column_names else False
    return table.filter(wanted).to_pylist() if isinstance(wanted, pa.ChunkedArray) else []


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Whether it is a measurement, with an interval and without a correction."""
    plain = _settings(row).get("hubness", "none") == "none"
    return plain and row["value"] is not None and row["ci_low"] is not None


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(row["settings"] or "{}")


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Main scores come first, what the language embedding leaks last."""
    return row["embedding"] == LANGUAGE, row["metric"] not in _MAIN, *(row[name] or "" for name in _NAMES)

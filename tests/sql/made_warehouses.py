"""Small warehouses from invented rows."""

import atexit
import shutil
import tempfile
from collections.abc import Collection
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import worlds

from disent.query import query
from disent_assets.warehouse.build import build_warehouse
from disent_assets.warehouse.sql_files import references
from disent_core.evaluation import TASKS
from disent_core.lineage.tables import scored_embeddings
from disent_core.storage.tables import SCHEMAS, rows_table, write_table

SQL = Path(__file__).parents[2] / "sql"

METRIC = worlds.METRIC | {
    **{"task": "crosslingual_retrieval", "dataset": "massive", "method": "dream", "encoder": "minilm"},
    **{"trained_on": "en-de", "embedding": "meaning", "metric": "accuracy_at_1"},
}
RANKING = {
    **{key: METRIC[key] for key in ("task", "dataset", "method", "encoder", "trained_on", "evaluated_on")},
    "embedding": "meaning",
    "seed": 0,
    "query_id": "1",
    "rank": 1,
    "candidate_id": "1",
    "score": 0.9,
    "is_gold": True,
}
UTTERANCE = worlds.utterance("en", "1", "wake me up", corpus="massive", text_key="k")
TARGET = {
    "corpus": "massive",
    "language": "en",
    "split": "test",
    "source_utterance_id": "1",
    "target_index": 0,
    "source_text": "wake me at six",
    "target_text": "wake me at nine",
    "replaced_slots": [{"slot": "time", "old": "six", "new": "nine"}],
}
COMPARISON = {
    **{"task": "crosslingual_retrieval", "dataset": "massive", "encoder": "minilm", "evaluated_on": "en-de"},
    **{"metric": "accuracy_at_1", "settings": "{}"},
    **{"method_a": "facet", "trained_on_a": "en-de", "embedding_a": "meaning", "value_a": 0.8},
    **{"method_b": "raw", "trained_on_b": "", "embedding_b": "sentence", "value_b": 0.5},
    **{"difference": 0.3, "ci_low": 0.2, "ci_high": 0.4, "n": 100, "test": "mcnemar_exact"},
    **{"p_value": 0.001, "p_holm": 0.002, "fingerprint": "f", "created_at": datetime(2026, 1, 1, tzinfo=UTC)},
}
METHOD = {"base_method": "dream", "settings": "{}", "may_stop_early": True}
DEFAULTS = {
    "metrics": METRIC,
    "configured_methods": METHOD,
    "comparisons": COMPARISON,
    "rankings": RANKING,
    "utterances": UTTERANCE,
    "template_pairs": TARGET,
    "scored_embeddings": {"lower_is_better": False},
}


def write_rows(path: Path, name: str, rows: list[dict]) -> Path:
    """Rows (what differs from the default) as one Parquet file."""
    full = [{**DEFAULTS.get(name, {}), **row} for row in rows]
    write_table(path, rows_table(full, name), SCHEMAS[name], inputs="i")
    return path


@cache
def sql_of(*names: str) -> Path:
    """Return a folder with these relations of the project's SQL, what they read, and the checks of both.

    `papers` are the papers' tables. To create all relations takes seconds, and most tests ask one or two.
    """
    files = {"papers": SQL / "templates" / "paper_table.sql"}
    files |= {f"parts.{path.stem}": path for path in (SQL / "published").glob("*.csv")}
    for path in (path for kind in ("tables", "views", "macros") for path in (SQL / kind).rglob("*.sql")):
        files[f"{'main' if path.parent.name in ('tables', 'views', 'macros') else path.parent.name}.{path.stem}"] = path
    ahead, read = [name if name in files else f"main.{name}" for name in names], set[str]()
    while ahead:
        if (name := ahead.pop()) not in read:
            read.add(name)
            ahead += _relations_of(files[name])
    checks = [path for path in (SQL / "checks").glob("*.sql") if _relations_of(path) <= read]
    figures = [*(SQL / "published" / "figures").glob("*.csv")] if "main.published_metrics" in read else []
    folder = Path(tempfile.mkdtemp(prefix="disent-sql-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path in (*(files[name] for name in read), *checks, *figures):
        (folder / path.relative_to(SQL)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.relative_to(SQL))
    (folder / "columns.csv").write_text("relation,column,description\n", encoding="utf-8")
    return folder


def _relations_of(path: Path) -> set[str]:
    """The relations other than inputs that a file of SQL reads."""
    names = references(path.read_text(encoding="utf-8")) if path.suffix == ".sql" else ()
    return {name for name in names if not name.startswith("inputs.")}


class Warehouse:
    """Builds into one folder, with the SQL of another, and asks what lies there."""

    def __init__(self, folder: Path, sql_root: Path = SQL) -> None:
        self.folder = folder
        self.path = folder / "warehouse.duckdb"
        self.sql_root = sql_root

    def build(self, sql_root: Path | None = None, *, large: Collection[str] = (), **tables: list[dict]):
        tables.setdefault("scored_embeddings", scored_embeddings(TASKS))
        inputs = {
            name: [write_rows(self.folder / "in" / f"{name}.parquet", name, rows)] for name, rows in tables.items()
        }
        self.report = build_warehouse(inputs, sql_root or self.sql_root, self.path, large=large)
        return self.report

    def ask(self, sql: str) -> list[dict]:
        """Return the rows of an answer by column."""
        return query(self.path, sql).to_pylist()

    def rows(self, sql: str) -> list[tuple]:
        """Return the rows of an answer as tuples."""
        return [tuple(row.values()) for row in self.ask(sql)]

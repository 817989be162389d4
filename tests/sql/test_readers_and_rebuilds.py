"""SQL clients that read while the warehouse is rebuilt get no error, and every answer is from a single warehouse."""

import multiprocessing
import os
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import pytest
from made_warehouses import SQL, sql_of

from disent.query import query
from disent_assets.warehouse.build import build_warehouse, remove_others
from disent_core.storage.tables import SCHEMAS, rows_table, write_table

ROWS = 40
IS_SHORT = "DISENT_TEST_REBUILDS" not in os.environ  # then without most relations
READERS = int(os.environ.get("DISENT_TEST_READERS", "4" if IS_SHORT else "10"))
REBUILDS = int(os.environ.get("DISENT_TEST_REBUILDS", "4"))
QUESTION = """
    select count(*) as n, min(value) as low, max(value) as high
    from (select value from metrics union all select score as value from rankings)"""


def rebuild(folder: Path, sql: Path, number: int, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Replace the warehouse by one in which every metric and score has this value, as the asset does.

    Metrics are copied into the file, and rankings a view over files whose names are returned; `before` are the last.
    """
    of_both = {
        "task": "sts", "dataset": "toy", "method": "raw", "encoder": "tiny", "trained_on": "", "evaluated_on": "en-de",
        "embedding": "sentence",
    }  # fmt: skip
    metric = of_both | {
        "metric": "pearson", "value": number / 1_024, "ci_low": None, "ci_high": None, "n": 5,
        "settings": "{}", "fingerprint": "f", "created_at": 0,
    }  # fmt: skip
    ranked = of_both | {"seed": 0, "rank": 1, "candidate_id": "1", "score": number / 1_024, "is_gold": True}
    tables = {
        "metrics": [metric | {"seed": seed} for seed in [None, *range(ROWS - 1)]],
        "rankings": [ranked | {"query_id": str(query_id)} for query_id in range(ROWS)],
    }
    for name, rows in tables.items():
        write_table(folder / f"{name}.parquet", rows_table(rows, name), SCHEMAS[name], inputs=str(number))
    inputs, warehouse = {name: [folder / f"{name}.parquet"] for name in tables}, folder / "warehouse.duckdb"
    report = build_warehouse(inputs, sql, warehouse, large=["rankings"])
    remove_others(warehouse, {*report.files, *before})
    return report.files


def read(path: Path, is_over: "Synchronized[int]", reads: "Synchronized[int]") -> None:
    """Query until the rebuilds are over; a mixed answer ends the process with an error."""
    last, parent = 0.0, multiprocessing.parent_process()
    while not is_over.value and parent.is_alive():  # a run of the tests that is killed leaves no readers
        (answer,) = query(path, QUESTION).to_pylist()
        assert answer["n"] == 2 * ROWS, answer
        assert answer["low"] == answer["high"] >= last, answer
        last = answer["high"]
        with reads.get_lock():
            reads.value += 1


@pytest.mark.timeout(3_600)
def test_clients_read_one_warehouse_or_the_next_while_it_is_rebuilt(tmp_path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["made_warehouses"])  # so that the readers don't each import it
    is_over, reads = context.Value("i", 0), context.Value("i", 0)
    sql = sql_of("leaderboard", "evaluation.rankings") if IS_SHORT else SQL
    files = rebuild(tmp_path, sql, 0)
    arguments = (tmp_path / "warehouse.duckdb", is_over, reads)
    readers = [context.Process(target=read, args=arguments, daemon=True) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    until = time.monotonic() + 60
    while reads.value < READERS and time.monotonic() < until:
        time.sleep(0.05)
    for number in range(1, REBUILDS + 1):
        files = rebuild(tmp_path, sql, number, files)
    is_over.value = 1
    for reader in readers:
        reader.join(60)
    print(f"{reads.value} answers by {READERS} clients during {REBUILDS} rebuilds")
    assert [reader.exitcode for reader in readers] == [0] * READERS
    assert reads.value >= READERS
    assert query(tmp_path / "warehouse.duckdb", QUESTION).to_pylist()[0]["high"] == REBUILDS / 1_024

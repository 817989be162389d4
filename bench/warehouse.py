"""Measure the warehouse with a large table as a copy and as a view over its files: build, size and three questions.

python -m bench.warehouse [--rows 10000000]

The table is `utterances`, with invented rows in ten files. Seconds are those of all threads of a process of its own.
"""

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable
from multiprocessing.pool import Pool
from pathlib import Path
from resource import RUSAGE_SELF

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.measuring import peak_gigabytes, processor_seconds
from disent.query import query
from disent_assets.settings.environment import SQL
from disent_assets.warehouse.build import build_warehouse
from disent_core.storage.tables import SCHEMAS, write_table

FILES = 10
QUESTIONS = {
    "count by language": "select language, count(*) from utterances group by all",
    "find by key": "select text from utterances where text_key < '00001' order by all",
    "mean length by intent": "select intent, avg(length(text)) from utterances where split = 'test' group by all",
}


def utterances(language: str, count: int, seed: int) -> pa.Table:
    """Return invented utterances of 4 to 12 of 5,000 words, of which low numbers are frequent."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(4, 13, count)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    numbers = chance.zipf(1.3, starts[-1]) % 5_000
    tokens = pa.ListArray.from_arrays(starts, _chosen([f"word{number}" for number in range(5_000)], numbers))
    keys = chance.bytes(16 * count).hex()
    columns = {
        "corpus": _chosen(["invented"], np.zeros(count)),
        "language": _chosen([language], np.zeros(count)),
        "utterance_id": pa.array(np.arange(count)).cast(pa.string()),
        "split": _chosen(["train"] * 8 + ["dev", "test"], np.arange(count) % 10),
        "domain": pa.nulls(count, pa.string()),
        "intent": _chosen([f"intent_{number}" for number in range(60)], numbers[starts[:-1]] % 60),
        "text": pc.binary_join(tokens, " "),
        "tokens": tokens,
        "slot_tags": pa.ListArray.from_arrays(starts, _chosen(["O", "B-slot"], numbers % 7 == 0)),
        "text_key": pa.array([keys[start : start + 32] for start in range(0, 32 * count, 32)]),
    }
    return pa.table(columns).cast(SCHEMAS["utterances"])


def _chosen(values: list[str], numbers: np.ndarray) -> pa.Array:
    return pa.array(values).take(pa.array(numbers.astype(np.int32)))


def build(folder: Path, kind: str) -> None:
    """Build a warehouse: of kind `view` with only a view over the files, of kind `copy` with the rows."""
    paths = sorted((folder / "in").glob("*.parquet"))
    build_warehouse(
        {"utterances": paths}, SQL, folder / kind / "warehouse.duckdb", large=["utterances"] * (kind == "view")
    )


def ask(folder: Path, kind: str, sql: str) -> None:
    """Query a warehouse."""
    query(folder / kind / "warehouse.duckdb", sql)


def _measured(work: Callable[..., None], *arguments: object) -> str:
    """Return processor seconds and peak memory of the process."""
    work(*arguments)
    return json.dumps([processor_seconds(RUSAGE_SELF), peak_gigabytes()])


def _alone(work: Callable[..., None], *arguments: object) -> tuple[float, float]:
    with Pool(1, context=multiprocessing.get_context("spawn")) as process:
        loaded = json.loads(process.apply(_measured, (ask, *arguments[:2], "select 1"))) if work is ask else (0, 0)
        seconds, peak = json.loads(process.apply(_measured, (work, *arguments)))
        return seconds - loaded[0], peak


def main() -> None:
    """Print a line of measurements for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="disent-warehouse-") as name:
        folder = Path(name)
        for number in range(FILES):
            table = utterances(f"l{number}", rows // FILES, number)
            write_table(folder / f"in/l{number}.parquet", table, SCHEMAS["utterances"], inputs="invented")
        size = sum(path.stat().st_size for path in (folder / "in").glob("*.parquet"))
        print(f"Parquet: {size / 1e6:.0f} MB", flush=True)
        for kind in ("copy", "view"):
            seconds, peak = _alone(build, folder, kind)
            size = (folder / kind / "warehouse.duckdb").stat().st_size
            print(f"{kind}: built in {seconds:.1f} s, {peak:.1f} GB; file {size / 1e6:.0f} MB", flush=True)
            for title, sql in QUESTIONS.items():
                print(f"{kind}: {title}: {_alone(ask, folder, kind, sql)[0]:.2f} s", flush=True)


if __name__ == "__main__":
    main()

"""Compare joins, groupings and samples of tables with loops over their rows in plain Python that give the same rows.

taskset -c 0 python -m bench.tables [FOLDER]

FOLDER has the real corpora: `massive/amazon-massive-dataset-1.1.tar.gz` and, optionally, `bitext` in Moses format with
the word lists in `dictionaries`. polars uses a thread for every processor that the process may run on.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "core"))

from table_loops import (
    loop_aligned,
    loop_bound,
    loop_fingerprint,
    loop_in_two_splits,
    loop_limited,
    loop_previous_witnesses,
    loop_split,
)

from bench.measuring import row
from disent_core.corpora.formats import massive
from disent_core.corpora.formats.moses import MOSES
from disent_core.corpora.rows import draw_splits, limited
from disent_core.lineage.corpora import _in_two_splits
from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import _previous_witnesses, bleu_state, pool
from disent_core.storage.tables import content_fingerprint
from disent_core.targets.aligned_pairs import LanguageTables, aligned_pairs
from disent_core.targets.masking import MaskingConfig, mask_utterances

FOLDER = Path(os.environ.get("DISENT_REAL_CORPORA", "data/real"))
TARBALL = Path("massive/amazon-massive-dataset-1.1.tar.gz")
SHARES, LIMIT, REPEATS = (0.9, 0.05, 0.05), 1_000, 5

Side = Callable[[], object]


def run(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Run every comparison; both sides take turns, and the fastest turn of each counts.

    Raises:
        AssertionError: if a table differs from the loop's.
    """
    works = [*_of_utterances(folder / TARBALL), *(_of_pairs(folder) if (folder / "bitext").is_dir() else ())]
    return [_compared(name, rows, ours, peer) for name, rows, ours, peer in works]


def _compared(name: str, rows: int, ours: Side, peer: Side) -> dict[str, Any]:
    seconds: dict[Side, list[float]] = {ours: [], peer: []}
    for _ in range(REPEATS):
        results = []
        for side, taken in seconds.items():
            started = time.perf_counter()
            results.append(side())
            taken.append(time.perf_counter() - started)
        assert _plain(results[0]) == _plain(results[1]), name
    note = f"{rows} rows; beside a loop over rows of Python; {pl.thread_pool_size()} thread(s)"
    return row(f"table: {name}", min(seconds[ours]), min(seconds[peer]), note, digits=4, of_ratio=1)


def _plain(made: Any) -> Any:
    if isinstance(made, pa.ChunkedArray):
        return made.to_pylist()
    if isinstance(made, pa.Table):
        return sorted(made.column_names), [dict(sorted(row.items())) for row in made.to_pylist()]
    if isinstance(made, list) and made and isinstance(made[0], dict):
        return sorted(made[0]), [dict(sorted(row.items())) for row in made]
    return made


def _of_utterances(tarball: Path) -> Iterator[tuple[str, int, Side, Side]]:
    """Yield comparisons on MASSIVE in English and German."""
    english, german = (
        massive.read_utterances(tarball, locale, corpus="massive", language=locale[:2]) for locale in ("en-US", "de-DE")
    )
    rows, field = len(english), english.schema.field("split")
    alike = english.set_column(3, field, pa.repeat(pa.scalar("test"), rows))
    yield (
        "splits of utterances", rows,
        lambda: draw_splits(alike, SHARES)["split"],
        lambda: [loop_split(key, SHARES, 0) for key in alike["utterance_id"].to_pylist()],
    )  # fmt: skip
    state = bleu_state(english, BleuConfig())
    tables = [LanguageTables(table, mask_utterances(table, MaskingConfig()), pool(state, BleuConfig()))
              for table in (english, german)]  # fmt: skip
    yield (
        "two languages aligned", rows,
        lambda: aligned_pairs("en-de", *tables),
        lambda: loop_aligned("en-de", *tables),
    )  # fmt: skip
    now = english.filter(pc.field("split") == "train").sort_by("utterance_id")
    now = now.take(np.flatnonzero(np.arange(len(now)) % 50))  # without every fiftieth
    yield (
        "scores of the pool that still hold", len(now),
        lambda: [array.tolist() for array in _previous_witnesses(now, state)],
        lambda: list(
            loop_previous_witnesses(_columns(now, "text_key"), _columns(state, "text_key", "nearest_utterance_id"))
        ),
    )  # fmt: skip


def _columns(table: pa.Table, *names: str) -> dict[str, Any]:
    """Return the values by id."""
    values = [table[name].to_pylist() for name in names]
    ids = table["utterance_id"].to_pylist()
    return dict(zip(ids, zip(*values, strict=True) if len(values) > 1 else values[0], strict=True))


def _of_pairs(folder: Path) -> Iterator[tuple[str, int, Side, Side]]:
    """Yield comparisons on the bitext of English and German."""
    published = MOSES.read_pairs(folder / "bitext", "en-de", corpus="bitext")
    rows = len(published)

    def loop_drawn() -> list[str]:
        keys = zip(published["source_key"].to_pylist(), published["target_key"].to_pylist(), strict=True)
        return [loop_split(key, SHARES, 0) for key in loop_bound(list(keys))]

    yield "splits of sentence pairs", rows, lambda: draw_splits(published, SHARES)["split"], loop_drawn
    pairs = draw_splits(published, SHARES)
    yield (
        f"{LIMIT} rows of each split", rows,
        lambda: limited(pairs, LIMIT),
        lambda: list(loop_limited(pairs.to_pylist(), LIMIT)),
    )  # fmt: skip
    key = ["corpus", "source_key", "split"]
    yield (
        "sentences in two splits", rows,
        lambda: _in_two_splits(pl.DataFrame(pairs.select(key)), "source_key"),
        lambda: loop_in_two_splits(zip(*(pairs[name].to_pylist() for name in key), strict=True)),
    )  # fmt: skip
    yield (
        "fingerprint of texts", rows,
        lambda: content_fingerprint(pairs.select(["source"])),
        lambda: loop_fingerprint("source", pairs["source"].to_pylist()),
    )  # fmt: skip


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    for line in run(parser.parse_args().folder):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

"""Compare an index and a table of vectors with LanceDB and Lance on the same made-up vectors.

python -m bench.lance FOLDER [--rows 1000000] [--dim 64]

Needs `pip install lancedb==0.40.0 pylance==14.0.2`. Each part prints processor and wall-clock seconds. Searches are for
the 10 nearest, one query at a time; recall counts cosines at least as high as the tenth of exact search.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import lancedb  # pyright: ignore[reportMissingImports]
import numpy as np
import pyarrow as pa

from bench.search import HEAD, NAME, QUERIES, K, Vectors
from disent_core.embeddings.arrays import KEY, Texts
from disent_core.embeddings.store import EmbeddingStore
from disent_core.encoders.contract import EncodedBatch
from disent_core.search.build import add_texts
from disent_core.search.stored import open_index
from disent_core.search.texts import Text
from disent_core.text import text_keys

BATCH, SOUGHT, NEW = 16_384, 10_000, 100


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Do something once, and print what it took."""
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(
        f"{what}: {time.process_time() - cpu:.3f} s of the processor, {time.perf_counter() - clock:.3f} s of the clock"
    )
    return result


def texts(first: int, end: int) -> list[str]:
    return [f"text {number}" for number in range(first, end)]


def batch(vectors: Vectors, first: int, end: int) -> pa.RecordBatch:
    """Return rows of a table by number: key, text and vector."""
    of_batch = texts(first, end)
    values = vectors(of_batch)[NAME]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.record_batch({"text_key": text_keys(of_batch), "text": of_batch, "vector": lists})


def batches(vectors: Vectors, rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows, BATCH):
        yield batch(vectors, first, min(first + BATCH, rows))


def searched(what: str, search: Callable[[np.ndarray], np.ndarray], queries: np.ndarray, tenth: np.ndarray) -> None:
    """Print the seconds a query, after one that warms up, and the recall."""
    search(queries[0])
    clock, cpu = time.perf_counter(), time.process_time()
    scores = np.stack([search(query) for query in queries])
    seconds = (time.process_time() - cpu) / len(queries), (time.perf_counter() - clock) / len(queries)
    recall = (scores >= tenth[:, None] - 1e-5).mean()
    print(f"{what}: {seconds[0]:.4f} s of the processor a query, {seconds[1]:.4f} s of the clock, recall {recall:.3f}")


def size(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:,.0f} MB"


def compare_search(folder: Path, vectors: Vectors, rows: int) -> None:
    queries = vectors(texts(10**9, 10**9 + QUERIES))[NAME]
    ours, theirs = folder / "index", folder / "lancedb"
    made = (Text(text, "en") for text in texts(0, rows))
    timed("disent: texts added", lambda: add_texts(ours, HEAD, vectors, made, engine="exact"))
    exact = open_index(ours).nearest(queries, NAME, K, is_exact=True)[0]
    index = open_index(ours)
    searched("disent, exact", lambda query: index.nearest(query[None], NAME, K)[0][0], queries, exact[:, -1])
    timed("disent: ivf built", lambda: add_texts(ours, HEAD, vectors, [], engine="ivf"))
    fast = open_index(ours)
    searched("disent, ivf", lambda query: fast.nearest(query[None], NAME, K)[0][0], queries, exact[:, -1])
    timed("disent: one text more", lambda: add_texts(ours, HEAD, vectors, [Text(f"text {rows}", "en")]))
    print(f"disent: {size(ours)}")
    database = lancedb.connect(theirs)
    schema = batch(vectors, 0, 1).schema
    table = timed("LanceDB: texts added", lambda: database.create_table("texts", batches(vectors, rows), schema=schema))

    def nearest(query: np.ndarray, **options: int) -> np.ndarray:
        asked = table.search(query).distance_type("cosine").limit(K).select(["text", "_distance"])
        for name, value in options.items():
            asked = getattr(asked, name)(value)
        return 1 - asked.to_arrow()["_distance"].to_numpy()

    searched("LanceDB, exact", nearest, queries, exact[:, -1])
    for kind, options in (("IVF_FLAT", {}), ("IVF_PQ", {"refine_factor": 10})):
        timed(
            f"LanceDB: {kind} built",
            lambda kind=kind: table.create_index(metric="cosine", index_type=kind, replace=True),
        )
        for probes in (5, 20, 80):
            asked = {"nprobes": probes, **options}
            searched(
                f"LanceDB, {kind}, {asked}", lambda query, asked=asked: nearest(query, **asked), queries, exact[:, -1]
            )
    new = pa.Table.from_batches([batch(vectors, rows, rows + 1)])
    timed("LanceDB: one text more", lambda: table.merge_insert("text_key").when_not_matched_insert_all().execute(new))
    print(f"LanceDB: {size(theirs)}")


class MadeUp:
    """An encoder of made-up vectors."""

    name, fingerprint, vector_dtype, states_dtype = "made-up", "0123456789ab", "float32", "float16"

    def __init__(self, vectors: Vectors) -> None:
        self.vectors, self.dim = vectors, vectors.centres.shape[1]

    def encode(self, given: Any, *, states: bool) -> Iterator[EncodedBatch]:
        for first in range(0, len(given), BATCH):
            rows = np.arange(first, min(first + BATCH, len(given)))
            values = self.vectors([given[int(row)] for row in rows])[NAME]
            yield EncodedBatch(rows, values, None, np.ones(len(rows), np.int64))


def compare_tables(folder: Path, vectors: Vectors, rows: int) -> None:
    """Store vectors by the key of their text, add a hundred, and look up ten thousand."""
    encoder: Any = MadeUp(vectors)
    store = EmbeddingStore(folder / "store", encoder=encoder.name, fingerprint=encoder.fingerprint, language="en")

    def stored(first: int, end: int) -> None:
        of_texts = texts(first, end)
        store.add(encoder, Texts.of_mapping(dict(zip(text_keys(of_texts), of_texts, strict=True))))
        store.open_vectors()

    chance = np.random.default_rng(0)
    sought = np.array(text_keys(f"text {number}" for number in chance.choice(rows, SOUGHT, replace=False)), KEY)
    timed("disent: vectors stored", lambda: stored(0, rows))
    timed(f"disent: {NEW} added to them", lambda: stored(rows, rows + NEW))
    again = EmbeddingStore(folder / "store", encoder=encoder.name, fingerprint=encoder.fingerprint, language="en")
    table = timed("disent: opened, compared with the checksums", again.open_vectors)
    ours = timed(f"disent: {SOUGHT:,} vectors by key", lambda: table.take(table.rows(sought)))
    print(f"disent: {size(folder / 'store')}")

    place = folder / "vectors.lance"
    schema = batch(vectors, 0, 1).schema
    timed("Lance: vectors stored", lambda: lance.write_dataset(batches(vectors, rows), place, schema=schema))
    dataset = lance.dataset(place)
    timed("Lance: index of keys built", lambda: dataset.create_scalar_index("text_key", "BTREE"))
    new = pa.Table.from_batches([batch(vectors, rows, rows + NEW)])
    timed(
        f"Lance: {NEW} added to them",
        lambda: dataset.merge_insert("text_key").when_not_matched_insert_all().execute(new),
    )
    opened = timed("Lance: opened", lambda: lance.dataset(place))
    quoted = ",".join(f"'{key.decode()}'" for key in sought)
    theirs = timed(
        f"Lance: {SOUGHT:,} vectors by key",
        lambda: opened.to_table(columns=["text_key", "vector"], filter=f"text_key in ({quoted})"),
    )
    assert len(theirs) == len(ours) == SOUGHT
    print(f"Lance: {size(place)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=64)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    vectors = Vectors(given.dim)
    compare_search(given.folder, vectors, given.rows)
    compare_tables(given.folder, vectors, given.rows)


if __name__ == "__main__":
    main()

"""Measure the shards of a step: whole, shard by shard in one process, and in two; each must give the same bits.

python -m bench.shards WHAT [--items 600000] [--massive TARBALL] [--engines inline ray]

Seconds of the processor are those of this process and of all that it started, so they include the start of workers;
those of Ray's workers, which belong to the cluster, are not among them.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bench.encoding import MODEL
from bench.measuring import processor_seconds
from bench.negatives import DEFAULT_MASSIVE, read_english, recombined
from bench.retrieval import vectors
from disent_assets.settings.environment import shard_backend
from disent_core.embeddings import store as embeddings
from disent_core.embeddings.arrays import Texts
from disent_core.embeddings.store import EmbeddingStore
from disent_core.encoders import LazyEncoder
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import max_bleu
from disent_core.shards.backend import sharded
from disent_core.text import text_keys

ENGINES = ("inline", "processes:1", "processes:2")

Work = Callable[[], tuple[np.ndarray, ...]]


def negatives(items: int, massive: Path) -> Work:
    """Score unsmoothed BLEU of each sentence against all others, in shards of 100,000."""
    sentences = recombined(read_english(massive), items)
    return lambda: max_bleu(sentences, BleuConfig())


def search(items: int, massive: Path) -> Work:
    """Search for the 5 nearest of `items` vectors, for as many queries."""
    queries, pool = vectors(items)
    return lambda: nearest(queries, pool, 5)


def encoding(items: int, massive: Path) -> Work:
    """Encode `items` distinct texts with MiniLM, in four shards (a shard usually has 50,000)."""
    sentences = [" ".join(words) for words in recombined(read_english(massive), items)]
    texts = Texts.of_mapping(dict(zip(text_keys(sentences), sentences, strict=True)))
    embeddings.TEXTS_OF_SHARD = -(-items // 4)
    lazy = LazyEncoder(HuggingFaceConfig(name="minilm", path=MODEL, pooling="mean"), Path(), "cpu")

    def encode() -> tuple[np.ndarray, ...]:
        with tempfile.TemporaryDirectory() as home:
            store = EmbeddingStore(Path(home), encoder="minilm", fingerprint=lazy.fingerprint, language="en")
            store.add_in_shards(partial(lazy.load, "en"), texts)
            vectors = store.open_vectors()
            return (vectors.take(vectors.rows([key.decode() for key in texts.keys.tolist()])),)

    return encode


WORK = {"negatives": (negatives, 600_000), "search": (search, 150_000), "encoding": (encoding, 12_000)}


def measure(work: Work, engines: tuple[str, ...]) -> Iterator[str]:
    """Yield a row of a Markdown table for each engine.

    Raises:
        AssertionError: if an engine's result differs from the first one's in any bit.
    """
    yield "| engine | seconds | of the processor | load before |"
    yield "|---|---|---|---|"
    expected = None
    for name in engines:
        load, cpu, began = os.getloadavg()[0], processor_seconds(), time.perf_counter()
        with sharded(shard_backend({"DISENT_SHARDS": name})):
            results = work()
        seconds = time.perf_counter() - began
        expected = expected or results
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(results, expected, strict=True)), name
        yield f"| {name} | {seconds:.1f} | {processor_seconds() - cpu:.1f} | {load:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WORK)
    parser.add_argument("--items", type=int)
    parser.add_argument("--massive", type=Path, default=DEFAULT_MASSIVE)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    chosen = parser.parse_args()
    make, usual = WORK[chosen.what]
    for line in measure(make(chosen.items or usual, chosen.massive), tuple(chosen.engines)):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""Encode texts through a pool of actors of Ray Data, beside `bench.shards encoding`.

    python -m bench.ray_data [--items 12000] [--massive TARBALL]    # extra: ray[data]

Like `python -m bench.shards encoding --engines processes:2`, it encodes texts from memory with MiniLM, in two processes
of one thread, and writes Parquet files. The start of Ray, which a cluster has behind it, is shown separately.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.encoding import MODEL
from bench.negatives import DEFAULT_MASSIVE, read_english, recombined
from disent_core.encoders import LazyEncoder
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig


class Encode:
    """An actor: loads the encoder once, and maps a batch of texts to their vectors."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        config = HuggingFaceConfig(name="minilm", path=MODEL, pooling="mean")
        self.encoder = LazyEncoder(config, Path(), "cpu").load("en")

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        texts = [str(text) for text in batch["text"]]
        vectors = np.empty((len(texts), self.encoder.dim), np.float32)
        for encoded in self.encoder.encode(texts, states=False):
            vectors[encoded.indices] = encoded.vectors
        return {"text": batch["text"], "vector": vectors}


def main() -> None:
    """Print the seconds, and whether the bits are those of one process."""
    import ray  # pyright: ignore[reportMissingImports]
    import ray.data  # pyright: ignore[reportMissingImports]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=12_000)
    parser.add_argument("--massive", type=Path, default=DEFAULT_MASSIVE)
    chosen = parser.parse_args()
    sentences = [" ".join(words) for words in recombined(read_english(chosen.massive), chosen.items)]
    began = time.perf_counter()
    # Two places for the actors, and two for what reads and writes: with two in all, Ray Data waits for ever.
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = ray.data.from_arrow(pa.table({"text": sentences})).repartition(4)
        rows.map_batches(Encode, batch_size=chosen.items // 4, concurrency=2, num_cpus=1).write_parquet(folder)
        seconds = time.perf_counter() - started
        table = pq.read_table(folder)
    made = dict(zip(table["text"].to_pylist(), np.stack(table["vector"].to_numpy()), strict=True))
    ray.shutdown()
    alone = Encode()({"text": np.array(sentences[:500], dtype=object)})["vector"]
    same = all(np.array_equal(made[text], vector) for text, vector in zip(sentences[:500], alone, strict=True))
    print(f"start of Ray {started - began:.1f} s, texts to Parquet {seconds:.1f} s, same bits: {same}")


if __name__ == "__main__":
    main()

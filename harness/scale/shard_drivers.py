"""Steps with shards on Ray: `python shard_drivers.py NAME FOLDER` runs one in the network of a cluster."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import ray

from disent_core.embeddings import store as embeddings
from disent_core.embeddings.arrays import Texts
from disent_core.embeddings.store import EmbeddingStore
from disent_core.encoders.contract import EncodedBatch
from disent_core.errors import EncoderError
from disent_core.evaluation.metrics import exact_search
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.negatives import nearest as negatives
from disent_core.negatives.config import BleuConfig
from disent_core.shards.backend import ShardBackend, sharded
from disent_core.shards.on_ray import on_ray
from disent_core.text import text_key


class SinusEncoder:
    """An encoder without a model: values are sines of a text's bytes."""

    name, dim, fingerprint, vector_dtype, states_dtype = "sinus", 3, "f" * 32, "float32", "float16"

    def encode(self, texts, *, states):
        for row, text in enumerate(texts):
            values = np.sin(np.frombuffer(text.encode(), np.uint8)[:, None] * np.arange(1, 4)).astype(np.float32)
            kept = values.astype(np.float16) if states else None
            yield EncodedBatch(np.array([row]), values.mean(0)[None], kept, np.array([len(values)]))


def everything(folder: Path, backend: ShardBackend) -> list[bytes]:
    """Return the bytes of negatives, exact search and encoding."""
    chance = random.Random(0)
    sentences = [[chance.choice("abcdefgh") for _ in range(chance.randint(3, 9))] for _ in range(200)]
    vectors = np.random.default_rng(0).standard_normal((2, 200, 8)).astype(np.float32)
    texts = Texts.of_mapping({text_key(" ".join(words)): " ".join(words) for words in sentences})
    store = EmbeddingStore(folder / backend.name, encoder="sinus", fingerprint="f" * 32, language="en")
    with sharded(backend):
        results = [*negatives.max_bleu(sentences, BleuConfig()), *nearest(*vectors, 3)]
        store.add_in_shards(SinusEncoder, texts)
    opened = store.open_vectors()
    results.append(opened.take(opened.rows([key.decode() for key in texts.keys.tolist()])))
    return [part.tobytes() for part in results]


def equal(folder: Path) -> bool:
    """Return whether shards on Ray give the same bits as a single shard here."""
    negatives.ROWS_OF_SHARD = embeddings.TEXTS_OF_SHARD = exact_search._LEAST_CANDIDATES = 9
    exact_search.PAIRS_OF_SHARD = 1
    return everything(folder, ShardBackend("ray")) == everything(folder, ShardBackend())


def killed_once(folder: Path) -> list[int]:
    """Return the results of shards, one of which kills its process at its first try."""

    def work(number: int) -> int:
        mark = folder / "killed"
        if number == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    return [*on_ray(work, range(6))]


def refused(folder: Path) -> str:
    """Return a shard's error message about its data."""

    def work(number: int) -> int:
        raise EncoderError(f"text {number} can't be encoded")

    try:
        return str([*on_ray(work, range(2))])
    except EncoderError as error:
        return str(error)


def busy(folder: Path) -> bool:
    """Return whether the step computes its shards itself if the cluster has no free processors."""
    ray.init(address="auto", log_to_driver=False)

    @ray.remote
    def step() -> bool:
        other = ray.remote(num_cpus=int(ray.cluster_resources()["CPU"]) - 1)(_wait).remote(str(folder / "done"))
        while ray.available_resources().get("CPU", 0) >= 1:
            time.sleep(0.1)
        here = {*on_ray(lambda number: os.getpid(), range(3))} == {os.getpid()}
        (folder / "done").touch()
        ray.get(other)
        return here

    return ray.get(step.remote())


def _wait(mark: str) -> None:
    while not Path(mark).exists():
        time.sleep(0.1)


def slow(folder: Path) -> list[int]:
    """Return the results of slow shards, each of which leaves a mark when it starts."""

    def work(number: int) -> int:
        (folder / f"began-{number}").touch()
        time.sleep(3)
        return number * number

    return [*on_ray(work, range(6))]


if __name__ == "__main__":
    results = globals()[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(results))

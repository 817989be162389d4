"""What a GPU does with encoding and training; needs CUDA, transformers and sentence-transformers, no corpus.

python -m tests.benchmarks.gpu

The encoder has XLM-R base's shape and random weights: throughput does not depend on their values. The texts are
the sample corpora's, the training data are random vectors of the shapes of MASSIVE.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from disent_core.arrays import KEY, StateTable, VectorTable
from disent_core.encoders.huggingface import HuggingFaceConfig, HuggingFaceEncoder, load
from disent_core.encoders.scratch import ScratchConfig, pretrain
from disent_core.heads import method
from disent_core.heads.data import PairRows, TrainingData, state_bank, vector_bank

CORPUS = Path(__file__).parents[2] / "data/corpora/sample/1.1/data"
PAIRS, DIM, COPIES = 11_514, 768, 16
SEEDS = (0, 1, 2)


def seconds(run: Callable[[], object]) -> float:
    """Time of one call, until the device is done."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def texts() -> list[str]:
    """Distinct texts of natural length."""
    lines = [line for path in sorted(CORPUS.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    return [f"{json.loads(line)['utt']} {copy}" for copy in range(COPIES) for line in lines]


def encoding(folder: Path, sentences: list[str]) -> dict[str, float]:
    """Texts a second of ours, with and without token states, and of sentence-transformers in bf16."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    ours = load(HuggingFaceConfig(name="base", path=str(folder), pooling="mean"), "cuda")
    word = Transformer(str(folder))
    peer = SentenceTransformer(modules=[word, Pooling(DIM)], device="cuda").to(torch.bfloat16)

    def encode(states: bool) -> Callable[[], None]:
        return lambda: _drain(ours, sentences, states=states)

    runs = {
        "ours": encode(False),
        "ours with token states": encode(True),
        "sentence-transformers, batch 256": lambda: peer.encode(sentences, batch_size=256),
    }
    found = {}
    for name, run in runs.items():
        run()
        found[f"{name}, texts a second"] = round(len(sentences) / min(seconds(run) for _ in range(2)))
    return found


def _drain(encoder: HuggingFaceEncoder, sentences: list[str], *, states: bool) -> None:
    for _ in encoder.encode(sentences, states=states):
        pass


def synthetic_data() -> TrainingData:
    """Random vectors and token states in the shapes of MASSIVE: about 12 tokens a text."""
    random = np.random.default_rng(0)
    count = 2 * PAIRS
    keys = np.sort(np.array([f"{row:032x}" for row in range(count)], dtype=KEY))
    lengths = random.integers(4, 24, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    vectors = [VectorTable(name, keys, random.standard_normal((count, DIM), np.float32)) for name in ("en", "de")]
    states = [
        StateTable(name, keys, random.standard_normal((offsets[-1], DIM), np.float32).astype(np.float16), offsets)
        for name in ("en", "de")
    ]

    def rows(start: int, size: int) -> PairRows:
        own = {
            side: torch.arange(start, start + size) + place * count for place, side in enumerate(("source", "target"))
        }
        label = {side: torch.full((size,), place) for place, side in enumerate(("source", "target"))}
        return PairRows(own, label, own, own)

    pool = [torch.arange(PAIRS) + place * count for place in range(2)]
    return TrainingData(
        ("en", "de"),
        vector_bank(vectors),
        state_bank(states),
        torch.arange(2 * count),
        {"train": rows(0, PAIRS), "dev": rows(PAIRS, 2033)},
        pool,
        pool,
    )


def training(name: str, preset: str, device: str) -> dict[str, float]:
    """Seconds an epoch and pairs a second, all seeds at once, after two epochs to warm up."""
    chosen = method(name)
    config = replace(chosen.presets[preset], max_epochs=6, validation="dev", checkpoint_seconds=1e9)
    with tempfile.TemporaryDirectory() as folder:
        epochs = list(chosen.fit(DATA, config, SEEDS, checkpoint=Path(folder, "checkpoint"), device=device))
    epoch = min(one.seconds for one in epochs[2:])
    return {
        f"{name} {preset}, {device}, seconds an epoch": round(epoch, 3),
        f"{name} {preset}, {device}, pairs a second": round(PAIRS * len(SEEDS) / epoch),
    }


if __name__ == "__main__":
    found: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    sentences = texts()
    with tempfile.TemporaryDirectory() as home:
        shape = ScratchConfig(
            name="base", vocab_size=20_000, hidden_size=DIM, layers=12, heads=12, intermediate_size=3072, max_steps=30
        )
        folder = Path(home, "base")
        steps = list(pretrain(sentences[:20_000], replace(shape, batch_tokens=32_768), folder, "cuda"))
        tail = steps[10:]
        rate = sum(step.tokens for step in tail) / (tail[-1].seconds - steps[9].seconds)
        found["masked-language modelling, tokens a second"] = round(rate)
        found |= encoding(folder, sentences)
    DATA = synthetic_data()
    for name, preset in (("dream", "paper"), ("fmda", "paper"), ("fmda", "softmax")):
        found |= training(name, preset, "cuda")
    print(json.dumps(found, indent=2))

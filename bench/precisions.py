"""Compare encoding in each precision with sentence-transformers and bare products, and measure the loss of accuracy.

Everything runs on one thread, in processor seconds, which other work on the machine affects only through the caches.

python -m bench.precisions [MASSIVE_TARBALL [TEXTS]]
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

from bench import encoding
from bench.encoding import MODEL, distinct, read_utterances
from bench.gpu.encoding import unit, vectors
from bench.measuring import in_turns, row
from bench.negatives import DEFAULT_MASSIVE
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import BATCH_TOKENS, HuggingFaceEncoder, load
from disent_core.matmul import product

TEXTS, REPEATS = 3_000, 3


def bare_products(
    shapes: Sequence[tuple[int, int]], tokens: int, precision: str, multiply: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[], None]:
    """Return a function that runs a model's products alone, on as many tokens, in batches of disent's size."""
    dtype, rows = getattr(torch, precision), BATCH_TOKENS["cpu"]
    factors = [(torch.randn(rows, shape[1]).to(dtype), torch.randn(shape).to(dtype)) for shape in shapes]

    @torch.inference_mode()
    def run() -> None:
        for _ in range(round(tokens / rows)):
            for left, right in factors:
                multiply(left, right)

    return run


def hits(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return whether raw vectors retrieve each text's translation, one row per direction."""
    scores, gold = source @ target.T, np.arange(len(source))
    return np.stack([scores.argmax(1) == gold, scores.argmax(0) == gold])


def costs_in_accuracy(tarball: Path, sts: Path) -> Iterator[str]:
    """Yield a line per precision: accuracy at 1 of raw vectors on MASSIVE test, and Spearman on STS 2017 en-en."""
    sides = [[utterance for utterance, _ in read_utterances(tarball, locale, "test")] for locale in ("en-US", "de-DE")]
    pairs = [line.split("\t")[:2] for line in (sts / "STS.input.track5.en-en.txt").read_text("utf-8").splitlines()]
    gold = [float(line) for line in (sts / "STS.gs.track5.en-en.txt").read_text("utf-8").split()]
    exact = [unit(vectors(minilm(precision="float32"), side)) for side in sides]
    for precision in ("float32", "bfloat16", "int8"):
        encoder = minilm(precision=precision)
        rounded = [unit(vectors(encoder, side)) for side in sides]
        accurate, cosines = hits(*rounded), (rounded[0] * exact[0]).sum(1)
        differences = (accurate.astype(float) - hits(*exact)).mean(axis=0)
        drawn = np.random.default_rng(0).integers(0, len(differences), (10_000, len(differences)))
        low, high = np.quantile(differences[drawn].mean(axis=1), (0.025, 0.975))
        left, right = (unit(vectors(encoder, list(texts))) for texts in zip(*pairs, strict=True))
        yield (
            f"{precision}: en-de, de-en {accurate.mean(axis=1).round(4).tolist()}, difference {differences.mean():.4f} "
            f"(95 % interval {low:.4f} to {high:.4f}); STS {spearmanr((left * right).sum(1), gold).statistic:.4f}; "
            f"cosine to float32 {cosines.mean():.5f}, least {cosines.min():.4f}"
        )


def minilm(**changed: Any) -> HuggingFaceEncoder:
    """Return the model on disent's side."""
    return load(HuggingFaceConfig(name="minilm", path=MODEL, pooling="mean", **changed), "cpu")


OURS: dict[str, dict[str, Any]] = {
    "float32": {"precision": "float32"},
    "float32, products = torch": {"precision": "float32", "products": "torch"},
    "bfloat16": {"precision": "bfloat16"},
    "int8": {"precision": "int8"},
}
PEERS = ("float32", "bfloat16")


def distinct_texts(texts: list[str]) -> list[dict[str, Any]]:
    """Compare each of our settings with each precision of the peer, and with the speed of the bare products."""
    from sentence_transformers import SentenceTransformer

    peers = {
        name: SentenceTransformer(str(encoding.minilm()), device="cpu", model_kwargs={"dtype": getattr(torch, name)})
        for name in PEERS
    }
    ours = {name: minilm(**changed) for name, changed in OURS.items()}
    layers = [part for part in ours["float32"]._model.modules() if isinstance(part, torch.nn.Linear)]
    shapes = [(layer.out_features, layer.in_features) for layer in layers]
    tokens = int(ours["float32"]._tokenise(texts).lengths.sum())
    bare = {
        "float32": bare_products(shapes, tokens, "float32", lambda left, right: product(left, right, "float32")),
        "float32, products = torch": bare_products(shapes, tokens, "float32", F.linear),
        "bfloat16": bare_products(shapes, tokens, "bfloat16", F.linear),
        "int8": bare_products(shapes, tokens, "int8", lambda left, right: torch._int_mm(left, right.T)),
    }
    seconds = in_turns(
        {f"ours {name}": partial(vectors, encoder, texts) for name, encoder in ours.items()}
        | {f"peer {name}": partial(model.encode, texts) for name, model in peers.items()}
        | {f"bare {name}": run for name, run in bare.items()},
        REPEATS,
    )
    reference = unit(peers["float32"].encode(texts))
    rows = []
    for name, encoder in ours.items():
        used, difference = seconds[f"ours {name}"], np.abs(unit(vectors(encoder, texts)) - reference).max()
        note = (
            f"{len(texts) / used:.0f} texts a second, {seconds[f'bare {name}'] / used:.2f} of what its products alone "
            f"reach; largest difference to float32 {difference:.0e}; 1 thread, seconds of the processor"
        )
        rows += [
            row(f"distinct texts, {name}, beside {peer}", used, seconds[f"peer {peer}"], note)
            for peer in (PEERS if name in ("bfloat16", "int8") else PEERS[:1])
        ]
    return rows


def run(massive_tarball: Path = DEFAULT_MASSIVE, *, texts: int = TEXTS) -> list[dict[str, Any]]:
    """Run every comparison on `texts` distinct utterances."""
    rows = distinct(read_utterances(massive_tarball, "en-US", "train"), texts)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return distinct_texts([utterance for utterance, _ in rows])
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    tarball = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_MASSIVE
    for line in run(tarball, texts=int(sys.argv[2]) if len(sys.argv) > 2 else TEXTS):
        print(json.dumps(line), flush=True)
    for line in costs_in_accuracy(tarball, Path("data/real/sts2017")):
        print(line, flush=True)

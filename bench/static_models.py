"""Compare the speed of warm models: disent's shipped static model, model2vec and a transformer.

python -m bench.static_models [MASSIVE_TARBALL]

Texts are MASSIVE's test split in five languages. model2vec has MiniLM's tokenizer and random vectors as wide as
disent's, as its speed does not depend on their values. The transformer is MiniLM in sentence-transformers, on fewer
texts.
"""

import copy
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

os.environ["RAYON_NUM_THREADS"] = "1"  # for tokenizers, which reads it on first use

import disent
from bench.encoding import minilm, read_utterances
from bench.negatives import DEFAULT_MASSIVE

LOCALES = ("en-US", "de-DE", "es-ES", "fr-FR", "ja-JP")
FEW = 1_000
REPEATS = 5


def run(massive: Path = DEFAULT_MASSIVE) -> list[dict[str, Any]]:
    """Return a row for each peer and state of the word cache."""
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    texts = [text for locale in LOCALES for text, _ in read_utterances(massive, locale, "test")]
    few = [text for locale in LOCALES for text, _ in read_utterances(massive, locale, "test")[: FEW // len(LOCALES)]]
    ours = disent.load()
    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    vectors = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), ours.dim), np.float32)
    table, transformer = StaticModel(vectors, tokenizer), SentenceTransformer(str(minilm()), device="cpu")
    sides: dict[str, tuple[int, Callable[[], object]]] = {
        "words seen before": (len(texts), lambda: ours.encode(texts)),
        "words not seen before": (len(texts), lambda: copy.deepcopy(ours).encode(texts)),
        "model2vec": (len(texts), lambda: table.encode(texts, use_multiprocessing=False)),
        "sentence-transformers, MiniLM": (len(few), lambda: transformer.encode(few)),
    }
    speeds = {name: count / seconds for (name, (count, _)), seconds in zip(sides.items(), in_turns(sides), strict=True)}
    return [_row(state, peer, speeds, len(texts)) for state in [*sides][:2] for peer in [*sides][2:]]


def in_turns(sides: dict[str, tuple[int, Callable[[], object]]]) -> Sequence[float]:
    """Return the median processor seconds of each side; the first turn is a warm-up and does not count."""
    seconds: list[list[float]] = [[] for _ in sides]
    for repeat in range(REPEATS + 1):
        for (_, encode), measured in zip(sides.values(), seconds, strict=True):
            began = time.process_time()
            encode()
            if repeat:
                measured.append(time.process_time() - began)
    return [median(measured) for measured in seconds]


def processor() -> str:
    """Return the processor's name according to Linux, or else its architecture."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _row(state: str, peer: str, speeds: dict[str, float], texts: int) -> dict[str, Any]:
    return {
        "name": f"the model small, {state}, beside {peer}",
        "ours_seconds": round(texts / speeds[state], 3),
        "peer_seconds": round(texts / speeds[peer], 3),
        "ratio": round(speeds[state] / speeds[peer], 2),
        "note": f"{speeds[state]:,.0f} and {speeds[peer]:,.0f} texts a second of the processor, {processor()}",
    }


if __name__ == "__main__":
    for measured in run(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_MASSIVE):
        print(*measured.values(), sep=" | ")

"""Compare the speed of warm models: disent's shipped static model, model2vec and a transformer.

python -m bench.static_models [MASSIVE_TARBALL]

Texts are MASSIVE's test split in five languages. model2vec has MiniLM's tokenizer and random vectors as wide as
disent's, as its speed does not depend on their values. The transformer is MiniLM in sentence-transformers, on fewer
texts.
"""

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ["RAYON_NUM_THREADS"] = "1"  # for tokenizers, which reads it on first use

import disent
from bench.encoding import minilm, read_utterances
from bench.measuring import in_turns, processor_name, row
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
    seconds = in_turns({name: encode for name, (_, encode) in sides.items()}, REPEATS)
    speeds = {name: count / seconds[name] for name, (count, _) in sides.items()}
    return [_row(state, peer, speeds, len(texts)) for state in [*sides][:2] for peer in [*sides][2:]]


def _row(state: str, peer: str, speeds: dict[str, float], texts: int) -> dict[str, Any]:
    note = f"{speeds[state]:,.0f} and {speeds[peer]:,.0f} texts a second of the processor, {processor_name()}"
    return row(f"the model small, {state}, beside {peer}", texts / speeds[state], texts / speeds[peer], note)


if __name__ == "__main__":
    for measured in run(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_MASSIVE):
        print(*measured.values(), sep=" | ")

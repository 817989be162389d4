"""Measure the intents that a classifier finds in languages without labels, from a few English examples of each.

python -m bench.few_shot [MASSIVE_TARBALL] [--head HEAD] [--draws 10]

A draw takes the examples of each of the 60 intents of MASSIVE from the English train split, the same for all models;
all texts of test are classified. Intervals are those of the mean over draws, by Student's t.
"""

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import disent
from bench.encoding import MODEL
from bench.gpu.encoding import vectors
from bench.negatives import DEFAULT_MASSIVE
from bench.unknown import Texts, by_intent, examples, interval, read
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.encoders.transformer import load
from disent_core.static_model import StaticModel

LOCALES = {"en": "en-US", "de": "de-DE", "es": "es-ES", "fr": "fr-FR", "ja": "ja-JP"}
EXAMPLES = 8
Encode = Callable[[list[str]], np.ndarray]


def models(head: Path | None) -> dict[str, tuple[Encode, Sequence[str]]]:
    """Return the encoding function of each model, and the languages in which it is measured."""

    def minilm(*layer: int) -> Encode:
        encoder = load(HuggingFaceConfig(name="minilm", path=MODEL, pooling="mean", layer=layer, max_length=64), "cpu")
        return lambda texts: vectors(encoder, texts)

    small = disent.load()
    untrained = StaticModel.of_table([], np.zeros((0, small.dim)), parts={"template": 128, "residual": 128}, seed=0)
    encoders: dict[str, tuple[Encode, Sequence[str]]] = {
        "MiniLM": (minilm(-1), [*LOCALES]),
        "MiniLM, layers 2 and 4": (minilm(2, 4), [*LOCALES]),
        "hashed words, untrained": (untrained.encode, [*LOCALES]),
        "`disent.load()`": (small.encode, [*LOCALES]),
    }
    if head is not None:
        encoders["the head of `--head`"] = disent.load(head, device="cpu").encode, head.stem.split("-")
    return encoders


def drawn(seed: int, train: Texts) -> Texts:
    """Return the examples of a draw."""
    of_intent = by_intent(train)
    return examples(random.Random(seed), of_intent, of_intent, EXAMPLES)


def accuracies(encode: Encode, draws: Sequence[Texts], tested: Mapping[str, Texts]) -> dict[str, list[float]]:
    """Return the accuracy of each draw by language; each text is encoded once."""
    known = list(dict.fromkeys(text for texts, _ in (*draws, *tested.values()) for text in texts))
    encoded = encode(known)
    place = {text: row for row, text in enumerate(known)}

    def looked_up(texts: list[str]) -> np.ndarray:
        return encoded[[place[text] for text in texts]]

    fitted = [disent.Classifier(looked_up).fit(*examples) for examples in draws]
    return {code: [each.score(*texts) for each in fitted] for code, texts in tested.items()}


def main() -> None:
    """Print the table of docs/classify.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("massive", type=Path, nargs="?", default=DEFAULT_MASSIVE)
    parser.add_argument("--head", type=Path, help="en-de.safetensors: one of English and German")
    parser.add_argument("--draws", type=int, choices=[3, 10, 20], default=10)
    given = parser.parse_args()
    train = read(given.massive, "en-US", "train")
    tested = {code: read(given.massive, locale, "test") for code, locale in LOCALES.items()}
    draws = [drawn(seed, train) for seed in range(given.draws)]
    print(f"| model | {' | '.join(LOCALES)} |\n|{'---|' * (1 + len(LOCALES))}")
    for name, (encode, languages) in models(given.head).items():
        accuracy_in = accuracies(encode, draws, {code: tested[code] for code in LOCALES if code in languages})
        cells = [interval(accuracy_in[code]) if code in accuracy_in else "" for code in LOCALES]
        print(f"| {' | '.join([name, *cells])} |", flush=True)
    print(f"\nn = {len(tested['en'].texts):,} texts of test in each language, {given.draws} draws")


if __name__ == "__main__":
    main()

"""Measure how well a classifier tells texts of none of its labels from others, by the number of examples of a label.

python -m bench.unknown [MASSIVE_TARBALL] [--split test] [--draws 20]

A draw keeps some of the 60 intents of MASSIVE, and takes its examples of each from the English train split. Texts of
the other intents are out of scope. Intervals are those of the mean over draws, by Student's t.
"""

import argparse
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import disent
from bench.negatives import DEFAULT_MASSIVE, massive_rows
from disent_core.classifier import FewExamplesWarning
from disent_core.search.noise import made_up

SIZES = ((3, 4), (3, 8), (40, 2), (40, 8))
"""Pairs of the number of intents kept and of examples of each."""
KEPT = 0.95
_T = {3: 4.303, 10: 2.262, 20: 2.093}
"""Number of draws -> Student's t for two-sided 95 % intervals."""
SCORES = ("highest probability", "cosine of the nearest", "nearness, their product")


class Texts(NamedTuple):
    texts: list[str]
    intents: list[str]


class Measured(NamedTuple):
    """Results of a draw: a dictionary by score, then shares at the threshold of `fit`."""

    refused_at: dict[str, float]  # share of out-of-scope texts, where 0.95 of the others are kept
    auroc: dict[str, float]
    refused: Mapping[str, float]  # share of out-of-scope texts, of random letters, and of in-scope texts by language


def read(tarball: Path, locale: str, split: str) -> Texts:
    rows = [row for row in massive_rows(tarball, locale) if row["partition"] == split]
    return Texts([row["utt"] for row in rows], [row["intent"] for row in rows])


def by_intent(texts: Texts) -> dict[str, list[str]]:
    """Return the texts of each intent, in order."""
    of_intent: dict[str, list[str]] = {}
    for text, intent in zip(*texts, strict=True):
        of_intent.setdefault(intent, []).append(text)
    return of_intent


def examples(chance: random.Random, of_intent: Mapping[str, list[str]], intents: Iterable[str], count: int) -> Texts:
    """Draw the examples of each of these intents; one with too few texts contributes all of them."""
    few = [
        (text, intent)
        for intent in sorted(intents)
        for text in chance.sample(of_intent[intent], min(count, len(of_intent[intent])))
    ]
    return Texts(*map(list, zip(*few, strict=True)))


def draw(seed: int, labels: int, count: int, train: Texts, tested: Mapping[str, Texts]) -> Measured:
    """Fit on the examples drawn by a seed, and measure on texts by language."""
    chance, of_intent = random.Random(seed), by_intent(train)
    kept = set(chance.sample(sorted(of_intent), labels))
    few = examples(chance, of_intent, kept, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewExamplesWarning)
        classifier = disent.Classifier(disent.load(), unknown="none").fit(*few)
    refused, sides = {}, {}
    for language, (texts, intents) in tested.items():
        probabilities, nearness = classifier.judge(texts)
        assert nearness is not None
        is_out = np.array([intent not in kept for intent in intents])
        assert classifier.threshold_ is not None
        refused[language] = (nearness[~is_out] < classifier.threshold_).mean()
        if language == "en":
            refused["out of scope"] = (nearness[is_out] < classifier.threshold_).mean()
            highest = probabilities.max(axis=1)
            scores = dict(zip(SCORES, (highest, nearness / highest, nearness), strict=True))
            sides = {name: (score[~is_out], score[is_out]) for name, score in scores.items()}
    refused["letters"] = (classifier.predict(made_up()) == "none").mean()
    refused_at = {name: float((out < np.quantile(known, 1 - KEPT)).mean()) for name, (known, out) in sides.items()}
    return Measured(refused_at, {name: auroc(*both) for name, both in sides.items()}, refused)


def auroc(high: np.ndarray, low: np.ndarray) -> float:
    """Return how often a value of `high` exceeds one of `low`; ties count half."""
    ordered = np.sort(low)
    return float((np.searchsorted(ordered, high) + np.searchsorted(ordered, high, "right")).mean() / 2 / len(low))


def interval(values: Sequence[float]) -> str:
    half = _T[len(values)] * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.3f} ± {half:.3f}"


def main() -> None:
    """Print the table of docs/classify.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("massive", type=Path, nargs="?", default=DEFAULT_MASSIVE)
    parser.add_argument("--split", choices=["dev", "test"], default="test")
    parser.add_argument("--draws", type=int, choices=[*_T], default=20)
    given = parser.parse_args()
    train = read(given.massive, "en-US", "train")
    tested = {code: read(given.massive, locale, given.split) for code, locale in (("en", "en-US"), ("de", "de-DE"))}
    print("| labels | examples | score | AUROC | found at 0.95 kept | refused: out of scope | letters", end="")
    print(" | in scope, en | in scope, de |\n|---|---|---|---|---|---|---|---|---|")
    for labels, count in SIZES:
        measured = [draw(seed, labels, count, train, tested) for seed in range(given.draws)]
        for name in SCORES:
            cells = [str(labels), str(count), name]
            cells += [interval([each.auroc[name] for each in measured])]
            cells += [interval([each.refused_at[name] for each in measured])]
            shares = ("out of scope", "letters", "en", "de") if name == SCORES[-1] else ()
            cells += [interval([each.refused[share] for each in measured]) for share in shares] or [""] * 4
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\nn = {len(tested['en'].texts):,} texts of {given.split} in each language, {given.draws} draws")


if __name__ == "__main__":
    main()

"""Compare exact all-pairs BLEU with a loop over sacrebleu, and measure it on 600,000 sentences.

python -m bench.negatives [path of the MASSIVE 1.1 tarball]
"""

import argparse
import json
import logging
import multiprocessing
import os
import random
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU

from bench.measuring import forget_peak, peak_gigabytes
from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import max_bleu

DEFAULT_MASSIVE = Path(os.environ.get("DISENT_REAL_CORPORA", "data/real"), "massive/amazon-massive-dataset-1.1.tar.gz")
CONFIGS = {
    "unsmoothed": BleuConfig(),
    "exp, effective order": BleuConfig(smoothing="exp", effective_order=True),
}
SAMPLED_ROWS = 8
SENTENCES = 600_000

Tokens = list[list[str]]


def run(massive: Path) -> list[dict[str, Any]]:
    """Return one row per measurement; both sides of a ratio are measured in this run, on the same tokens."""
    tokens = read_english(massive)
    rows = [beside_sacrebleu(name, tokens, config) for name, config in CONFIGS.items()]
    return [*rows, at_scale(tokens)]


def read_english(massive: Path) -> Tokens:
    """Return the lower-cased words of MASSIVE en-US train."""
    rows = massive_rows(massive, "en-US")
    return [BleuConfig().tokens(row["utt"], "en") for row in rows if row["partition"] == "train"]


def massive_rows(tarball: Path, locale: str) -> list[dict[str, str]]:
    """Return the utterances of a locale of MASSIVE."""
    with tarfile.open(tarball) as archive:
        name = next(name for name in archive.getnames() if name.endswith(f"/{locale}.jsonl"))
        return [json.loads(line) for line in archive.extractfile(name)]


def beside_sacrebleu(name: str, tokens: Tokens, config: BleuConfig) -> dict[str, Any]:
    """Compare with sacrebleu, which scores only sampled utterances against all others, in both directions."""
    sample = sorted(random.Random(0).sample(range(len(tokens)), SAMPLED_ROWS))
    started = time.perf_counter()
    expected = [_sacrebleu_row(tokens, i, config) for i in sample]
    # The samples score each pair from both sides; a loop over all pairs needs only half of these scores.
    peer_seconds = (time.perf_counter() - started) / SAMPLED_ROWS * len(tokens) / 2
    ours = []
    for _ in range(5):
        started = time.perf_counter()
        scores, _ = max_bleu(tokens, config)
        ours.append(time.perf_counter() - started)
    np.testing.assert_allclose(scores[sample], expected, atol=1e-9)
    seconds = float(np.median(ours))
    return {
        "name": f"all-pairs BLEU, {name}",
        "ours_seconds": round(seconds, 3),
        "peer_seconds": round(peer_seconds),
        "ratio": round(peer_seconds / seconds),
        "note": f"MASSIVE en train, {len(tokens)} utterances; sacrebleu's sentence_score extrapolated from "
        f"{SAMPLED_ROWS} utterances against all, scores equal; ours is the median of 5",
    }


def _sacrebleu_row(tokens: Tokens, i: int, config: BleuConfig) -> float:
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    peer = BLEU(tokenize="none", smooth_method=config.smoothing, effective_order=config.effective_order)
    texts = [" ".join(words) for words in tokens]
    text, others = texts[i], texts[:i] + texts[i + 1 :]
    both_ways = (
        max(peer.sentence_score(text, [other]).score, peer.sentence_score(other, [text]).score) for other in others
    )
    return max(both_ways) / 100


def recombined(tokens: Tokens, count: int) -> Tokens:
    """Return distinct sentences, each joining the head of one and the tail of another at a word that both have.

    They keep the lengths, words and frequent n-grams of the source: thousands contain its most frequent 4-gram.
    """
    rng = random.Random(0)
    places: dict[str, list[tuple[int, int]]] = {}
    for sentence, words in enumerate(tokens):
        for position, word in enumerate(words):
            places.setdefault(word, []).append((sentence, position))
    sentences: dict[tuple[str, ...], None] = {}
    while len(sentences) < count:
        head = rng.choice(tokens)
        cut = rng.randrange(len(head))
        sentence, position = rng.choice(places[head[cut]])
        sentences.setdefault((*head[:cut], *tokens[sentence][position:]))
    return [list(words) for words in sentences]


def at_scale(tokens: Tokens, count: int = SENTENCES) -> dict[str, Any]:
    """Measure unsmoothed BLEU in a separate process, so that its peak memory is that of this task alone."""
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        seconds, cpu, peak, texts = workers.apply(_scale, (tokens, count))
    return {
        "name": f"all-pairs BLEU, unsmoothed, {count} sentences",
        "ours_seconds": round(seconds, 1),
        "peer_seconds": None,
        "ratio": None,
        "note": f"distinct, recombined from MASSIVE en train; {cpu:.1f} s of one core; peak memory "
        f"{peak:.2f} GB, of which {texts:.2f} GB before BLEU started",
    }


def _scale(tokens: Tokens, count: int) -> tuple[float, float, float, float]:
    sentences = recombined(tokens, count)
    forget_peak()
    before = peak_gigabytes()
    started, cpu = time.perf_counter(), time.process_time()
    max_bleu(sentences, CONFIGS["unsmoothed"])
    return time.perf_counter() - started, time.process_time() - cpu, peak_gigabytes(), before


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("massive", type=Path, nargs="?", default=DEFAULT_MASSIVE)
    print(json.dumps(run(parser.parse_args().massive), indent=2))


if __name__ == "__main__":
    main()

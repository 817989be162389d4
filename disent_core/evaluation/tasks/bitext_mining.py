"""Mine translation pairs from two lists of sentences of which only some have a partner, as in BUCC.

Artetxe and Schwenk 2019, https://aclanthology.org/P19-1309: the score of a pair is the ratio of its cosine to the mean
cosine of both sentences with their k nearest neighbours on the other side. A pair is mined if its ratio reaches a
threshold, which is tuned for F1 on dev. In a bitext every sentence has a partner. To make it a mining problem, a hash
of the id removes the source of a third of the pairs and the target of another third; the remaining sides are
distractors. Equal texts count as one sentence. All pairs whose sentences both remain are gold. The lists are from the
split `test`, whatever the split of the other tasks.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from disent_core.evaluation.contract import Embedded, EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.evaluation.metrics.statistics import f1, precision, recall
from disent_core.evaluation.tasks.parallel import sentence_pairs

TUNED_ON, MEASURED_ON = "dev", "test"

Pairs = set[tuple[int, int]]
"""Index of a source and index of a target."""
Retrieval = Literal["max", "intersection"]


@dataclass(frozen=True)
class Mined:
    """Pairs by decreasing margin; no sentence occurs in two of them."""

    pairs: list[tuple[int, int]]
    margins: Float[np.ndarray, " pairs"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MiningProblem(Problem):
    """Texts by role `dev source`, `dev target`, `test source` and `test target`, with the gold pairs by split."""

    takes_late_interaction: ClassVar[bool] = True

    gold: Mapping[str, Pairs]
    neighbours: int
    retrieval: Retrieval

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return F1, precision and recall on test, with its sources as items, and the threshold."""
        sides = [[matrices[f"{split} {side}"] for side in ("source", "target")] for split in (TUNED_ON, MEASURED_ON)]
        mined_dev, mined = (mine(*both, neighbours=self.neighbours, retrieval=self.retrieval) for both in sides)
        threshold = best_threshold(mined_dev, self.gold[TUNED_ON])
        sources = len(self.texts[f"{MEASURED_ON} source"])
        pairs = [pair for pair, margin in zip(mined.pairs, mined.margins, strict=True) if margin >= threshold]
        items = _counts(pairs, self.gold[MEASURED_ON], sources)
        statistics = {"f1": f1, "precision": precision, "recall": recall}
        measurements = [measured(metric, items, statistic=statistic) for metric, statistic in statistics.items()]
        return [*measurements, Measurement(metric="threshold", value=threshold, n=sources)]


def _counts(mined: list[tuple[int, int]], gold: Pairs, sources: int) -> Float[np.ndarray, "sources counts"]:
    """Return correct, predicted and gold pairs of each source."""
    counts = np.zeros((sources, 3))
    for pair in mined:
        counts[pair[0]] += (pair in gold, 1, 0)
    for source, _ in gold:
        counts[source, 2] += 1
    return counts


# --- mining -----------------------------------------------------------------------------------------------


def mine(source: Embedded, target: Embedded, *, neighbours: int, retrieval: Retrieval) -> Mined:
    """Mine the best pairs by the ratio margin, equation 2 of the paper with `a / b`.

    The `neighbours` nearest of each sentence give its best partner and its mean cosine. `max` takes the best partners
    of sources and of targets, highest margin first, with each sentence in at most one pair; `intersection` takes pairs
    whose sentences are each other's best partner.
    """
    forth, back = nearest(source, target, neighbours), nearest(target, source, neighbours)
    means = [scores.mean(axis=1, dtype=float) for scores, _ in (forth, back)]
    best_target, forth_margins = _best_partners(*forth, *means)
    best_source, back_margins = _best_partners(*back, *means[::-1])
    pairs = np.stack([np.arange(len(best_target)), best_target], axis=1)
    if retrieval == "intersection":
        is_mutual = best_source[best_target] == np.arange(len(best_target))
        return _distinct(pairs[is_mutual], forth_margins[is_mutual])
    of_targets = np.stack([best_source, np.arange(len(best_source))], axis=1)
    return _distinct(np.concatenate([pairs, of_targets]), np.concatenate([forth_margins, back_margins]))


def _best_partners(
    scores: Float[np.ndarray, "n k"],
    indices: Int[np.ndarray, "n k"],
    query_means: Float[np.ndarray, " n"],
    candidate_means: Float[np.ndarray, " m"],
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the neighbour with the highest margin, and that margin; -inf if the mean cosine is not positive."""
    means = (query_means[:, None] + candidate_means[indices]) / 2
    margins = np.where(means > 0, scores / np.where(means > 0, means, 1), -np.inf)
    rows, best = np.arange(len(margins)), margins.argmax(axis=1)
    return indices[rows, best], margins[rows, best]


def _distinct(pairs: Int[np.ndarray, "n 2"], margins: Float[np.ndarray, " n"]) -> Mined:
    """Return the pairs by decreasing margin, without pairs that share a sentence with a better pair."""
    sources, targets, kept = set(), set(), []
    for index in np.argsort(-margins, kind="stable").tolist():
        source, target = pairs[index].tolist()
        if np.isfinite(margins[index]) and source not in sources and target not in targets:
            sources.add(source)
            targets.add(target)
            kept.append(index)
    return Mined([(source, target) for source, target in pairs[kept].tolist()], margins[kept])


def best_threshold(mined: Mined, gold: Pairs) -> float:
    """Return the threshold with the highest F1, half way to the next pair's margin; 1 if nothing is mined.

    As in BUCC's script. Pairs of equal margin are taken together; ties in F1 choose the highest threshold.
    """
    if not mined.pairs:
        return 1.0
    correct = np.cumsum([pair in gold for pair in mined.pairs])
    # F1 of the n best pairs, for n = 1, 2, ...; a cut between pairs of equal margin is not allowed.
    f1_at = 2 * correct / (np.arange(1, len(correct) + 1) + len(gold))
    below = np.append(mined.margins[1:], mined.margins[-1])
    is_cut = np.append(mined.margins[1:] < mined.margins[:-1], True)
    cut = int(np.argmax(np.where(is_cut, f1_at, -1)))
    return float((mined.margins[cut] + below[cut]) / 2)


# --- problems ---------------------------------------------------------------------------------------------


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of one pair; none if dev or test has no gold pair."""
    texts, gold = {}, {}
    for split in (TUNED_ON, MEASURED_ON):
        source, target, gold[split] = _lists(inputs, sentence_pairs(inputs, split))
        texts |= {f"{split} source": source, f"{split} target": target}
    if not all(gold.values()):
        return []
    paired = [len({pair[side] for pair in gold[MEASURED_ON]}) for side in (0, 1)]
    return [
        MiningProblem(
            task="bitext_mining",
            dataset=inputs.corpus,
            evaluated_on=inputs.pair,
            texts=texts,
            settings={
                "split": MEASURED_ON,
                "tuned_on": TUNED_ON,
                "margin": "ratio",
                "neighbours": config.mining_neighbours,
                "retrieval": config.mining_retrieval,
                "source_distractors": len(texts[f"{MEASURED_ON} source"]) - paired[0],
                "target_distractors": len(texts[f"{MEASURED_ON} target"]) - paired[1],
            },
            gold=gold,
            neighbours=config.mining_neighbours,
            retrieval=config.mining_retrieval,
        )
    ]


def _lists(inputs: Inputs, pairs: pa.Table) -> tuple[Texts, Texts, Pairs]:
    """Return distinct sources and targets that remain, and the gold pairs among them."""
    import polars as pl

    lost = pl.Series([lost_side(pair_id) for pair_id in pairs["pair_id"].to_pylist()], dtype=pl.Int64)
    rows = pl.DataFrame(pairs.select(["source", "target", "source_key", "target_key"]))
    source, target = (
        rows.filter(lost != number)
        .select(f"{side}_key", side)
        .unique(f"{side}_key", keep="first", maintain_order=True)
        .with_columns(pl.int_range(pl.len()).alias(f"{side}_place"))
        for number, side in enumerate(("source", "target"))
    )
    gold = rows.join(source, on="source_key").join(target, on="target_key").select("source_place", "target_place")
    left, right = (
        Texts(language, *(column.to_list() for column in side.get_columns()[:2]))
        for language, side in zip(inputs.languages, (source, target), strict=True)
    )
    return left, right, set(gold.iter_rows())


def lost_side(pair_id: str) -> int:
    """Return the side that a pair loses, by a hash of its id: 0 source, 1 target, 2 none; a third of ids each."""
    return int.from_bytes(hashlib.sha256(pair_id.encode()).digest()[:8], "big") % 3


TASK = Task(name="bitext_mining", scope="pair", tables=("sentence_pairs",), problems=problems, kinds=("bitext",))

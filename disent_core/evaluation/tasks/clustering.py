"""Measure how well labels are clusters of an embedding: silhouettes by cosine and by Euclidean distance.

Rousseeuw 1987, https://doi.org/10.1016/0377-0427(87)90125-7: the silhouette of an item is (b - a) / max(a, b), from -1
to 1, where a is the mean distance to the other items of its label and b that to the items of the nearest other label.
It is 0 for the only item of a label. In one language the labels are the intents. For a pair they are the languages,
which a meaning embedding should not separate. The interval resamples the silhouettes, not the clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Float, Float64, Int

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import check_finite, unit_rows
from disent_core.evaluation.tasks.parallel import split_utterances, utterance_texts
from disent_core.exact import blocks

NAME = "clustering"
_BLOCK = 1024  # rows and columns of the distance block in memory: 8 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterProblem(Problem):
    """Texts by language, with the `labels` of all texts in the order of the roles."""

    labels: np.ndarray

    def score(self, matrices: Mapping[str, Float[np.ndarray, "texts dim"]]) -> list[Measurement]:
        rows = np.concatenate([matrices[role] for role in self.texts])
        _, codes = np.unique(self.labels, return_inverse=True)
        return [
            measured("silhouette_cosine", silhouettes(cosine_sums(rows, codes), codes)),
            measured("silhouette_euclidean", silhouettes(euclidean_sums(rows, codes), codes)),
        ]


def silhouettes(sums: Float64[np.ndarray, "n labels"], codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Return the silhouette of each item from the sum of its distances to the items of each label."""
    sizes, places = np.bincount(codes), np.arange(len(codes))
    # Mean distance to the other items of the same label, and to the items of each other label.
    within = sums[places, codes] / np.maximum(sizes[codes] - 1, 1)
    between = sums / sizes
    between[places, codes] = np.inf
    nearest = between.min(axis=1)
    widest = np.maximum(within, nearest)
    is_defined = (sizes[codes] > 1) & (widest > 0)
    return np.where(is_defined, (nearest - within) / np.where(is_defined, widest, 1), 0)


def cosine_sums(rows: Float[np.ndarray, "n dim"], codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, "n labels"]:
    """Return the sum of each row's distances to the rows of each label, without an n x n matrix: cosine is linear."""
    unit = unit_rows(rows, "embedding").astype(float)
    sums = np.bincount(codes) - unit @ (np.eye(codes.max() + 1)[codes].T @ unit).T
    sums[np.arange(len(codes)), codes] -= 1 - np.einsum("nd,nd->n", unit, unit)  # the distance of a row to itself is 0
    return np.maximum(sums, 0)


def euclidean_sums(rows: Float[np.ndarray, "n dim"], codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, "n labels"]:
    """Return the sum of each row's distances to the rows of each label; blocks above the diagonal serve both sides."""
    check_finite(rows, "embedding")
    centred = rows - rows.mean(axis=0, dtype=float)  # smaller squares lose fewer digits in the difference below
    squares, members = np.einsum("nd,nd->n", centred, centred), np.eye(codes.max() + 1)[codes]
    sums = np.zeros(members.shape)
    for rows_block, columns_block in combinations_with_replacement(blocks(len(rows), _BLOCK), 2):
        # |x - y|^2 = |x|^2 + |y|^2 - 2 xy
        products = centred[rows_block] @ centred[columns_block].T
        squared = squares[rows_block, None] + squares[columns_block] - 2 * products
        if rows_block == columns_block:
            np.fill_diagonal(squared, 0)
        distances = np.sqrt(np.maximum(squared, 0))
        sums[rows_block] += distances @ members[columns_block]
        if rows_block != columns_block:
            sums[columns_block] += distances.T @ members[rows_block]
    return sums


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a language or pair; none if there are fewer than two labels or none has two items."""
    is_pair = len(inputs.languages) > 1
    tables = split_utterances(inputs, config.split, with_intent=not is_pair)
    if is_pair:
        labels = np.repeat(inputs.languages, [len(table) for table in tables])
    else:
        labels = np.asarray(tables[0]["intent"].to_pylist(), dtype=str)
    if not 2 <= len(set(labels.tolist())) < len(labels):
        return []
    return [
        ClusterProblem(
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on="-".join(inputs.languages),
            texts=dict(zip(inputs.languages, map(utterance_texts, inputs.languages, tables), strict=True)),
            settings={"split": config.split, "labels": "language" if is_pair else "intent"},
            labels=labels,
        )
    ]


TASK = Task(name=NAME, scope="both", tables=("utterances",), problems=problems)

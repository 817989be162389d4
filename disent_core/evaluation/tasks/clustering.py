"""How well labels are clusters of an embedding: silhouettes by cosine and by Euclidean distance.

Rousseeuw 1987, https://doi.org/10.1016/0377-0427(87)90125-7: with a the mean distance to the others of one's own
label and b that to the nearest other label, (b - a) / max(a, b), from -1 to 1; 0 for the only item of a label. In
one language the labels are the intents; of a pair they are the languages: a meaning should not tell them apart.
Its interval resamples the silhouettes themselves, not the clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Float64, Int

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import check_finite, unit_rows
from disent_core.evaluation.tasks.parallel import utterance_texts

NAME = "clustering"
_BLOCK = 1024  # rows and columns of the distances that are held at once: 8 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterProblem(Problem):
    """Texts by language; `labels` are those of all of them, in the order of the roles."""

    labels: np.ndarray

    def score(self, matrices: Mapping[str, Float[np.ndarray, "texts dim"]]) -> list[Measurement]:
        """Mean silhouettes.

        Raises:
            EncoderError: if a row is not finite.
        """
        rows = np.concatenate([matrices[role] for role in self.texts])
        _, codes = np.unique(self.labels, return_inverse=True)
        return [
            measured("silhouette_cosine", silhouettes(cosine_sums(rows, codes), codes)),
            measured("silhouette_euclidean", silhouettes(euclidean_sums(rows, codes), codes)),
        ]


def silhouettes(sums: Float64[np.ndarray, "n labels"], codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Silhouette of each item from the sum of its distances to the items of each label."""
    sizes, places = np.bincount(codes), np.arange(len(codes))
    own = sums[places, codes] / np.maximum(sizes[codes] - 1, 1)
    others = sums / sizes
    others[places, codes] = np.inf
    nearest = others.min(axis=1)
    widest = np.maximum(own, nearest)
    is_defined = (sizes[codes] > 1) & (widest > 0)
    return np.where(is_defined, (nearest - own) / np.where(is_defined, widest, 1), 0)


def cosine_sums(rows: Float[np.ndarray, "n dim"], codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, "n labels"]:
    """Sum of each row's cosine distances to the rows of each label: linear in their sum, so n x n is never made."""
    unit = unit_rows(rows, "embedding").astype(float)
    sums = np.bincount(codes) - unit @ (_indicator(codes).T @ unit).T
    sums[np.arange(len(codes)), codes] -= 1 - np.einsum("nd,nd->n", unit, unit)  # a row is at distance 0 of itself
    return np.maximum(sums, 0)


def euclidean_sums(rows: Float[np.ndarray, "n dim"], codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, "n labels"]:
    """Sum of each row's distances to the rows of each label, block by block and each distance once."""
    check_finite(rows, "embedding")
    centred = rows - rows.mean(axis=0, dtype=float)  # differences of small squares are exact to more digits
    squares, members = np.einsum("nd,nd->n", centred, centred), _indicator(codes)
    sums = np.zeros(members.shape)
    starts = range(0, len(rows), _BLOCK)
    for own in (slice(start, start + _BLOCK) for start in starts):
        for other in (slice(start, start + _BLOCK) for start in starts if start >= own.start):
            squared = squares[own, None] + squares[other] - 2 * (centred[own] @ centred[other].T)
            if own == other:
                np.fill_diagonal(squared, 0)
            distances = np.sqrt(np.maximum(squared, 0))
            sums[own] += distances @ members[other]
            if own != other:
                sums[other] += distances.T @ members[own]
    return sums


def _indicator(codes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, "n labels"]:
    return np.eye(codes.max() + 1)[codes]


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """The problem of a language or a pair; none with fewer than two labels, or where no two items share one."""
    is_pair = len(inputs.languages) > 1
    tables = [_of_split(inputs.tables["utterances", one], config.split, is_pair) for one in inputs.languages]
    texts = {language: utterance_texts(language, each) for language, each in zip(inputs.languages, tables, strict=True)}
    if is_pair:
        labels = np.repeat(inputs.languages, [len(each) for each in tables])
    else:
        labels = np.asarray(tables[0]["intent"].to_pylist(), dtype=str)
    if not 2 <= len(set(labels.tolist())) < len(labels):
        return []
    return [
        ClusterProblem(
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on="-".join(inputs.languages),
            texts=texts,
            settings={"split": config.split, "labels": "language" if is_pair else "intent"},
            labels=labels,
        )
    ]


def _of_split(utterances: pa.Table, split: str, is_pair: bool) -> pa.Table:
    chosen = utterances.select(["split", "text_key", "text", "intent"]).filter(pc.field("split") == split)
    return chosen if is_pair else chosen.filter(pc.field("intent").is_valid())


TASK = Task(name=NAME, scope="both", tables=("utterances",), problems=problems)

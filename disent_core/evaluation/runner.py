"""Score one method on problems: every embedding, each seed and the mean over seeds, as rows of `metrics`."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from disent_core.errors import EncoderError
from disent_core.evaluation.contract import Embedded, EvaluationConfig, LabelProblem, Problem, Texts
from disent_core.evaluation.measurement import Measurement, Ranking
from disent_core.evaluation.metrics.intervals import aggregate
from disent_core.evaluation.metrics.ranking import check_finite
from disent_core.evaluation.metrics.shared import share
from disent_core.evaluation.metrics.statistics import statistic_of
from disent_core.progress import Progress
from disent_core.storage.tables import SCHEMAS, conform, rows_table

Embed = Callable[[Texts, int | None], Mapping[str, Embedded]]
"""Function from texts and a seed (None: untrained) to one matrix, `texts dim`, or one late interaction for each
embedding of the method."""

Label = Callable[[LabelProblem, int | None], Sequence[Sequence[str]] | None]
"""Function from a problem and a seed to the tags of its sentences; None if the method lacks its language."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluated:
    """Tables of the results of one method."""

    metrics: pa.Table
    """One row per number, with its interval."""
    rankings: pa.Table
    """One row for each query and rank of a retrieval task."""
    outcomes: pa.Table
    """One row per metric and seed (null: untrained) with the items of the metric, flattened: `columns` values per item.
    float32 is exact for hits and counts; a correlation recomputed from it agrees to 1e-6."""


def evaluate(
    problems: Sequence[Problem | LabelProblem],
    embed: Embed | None,
    label: Label | None = None,
    *,
    method: str,
    encoder: str,
    trained_on: str,
    seeds: Sequence[int] | None,
    config: EvaluationConfig,
    fingerprint: str,
    created_at: datetime,
) -> Evaluated:
    """Score a method and return its tables `metrics`, `rankings` and `outcomes`.

    For each problem, embedding and metric there is one row whose seed is null, the mean over seeds, and one row per
    seed. Texts are embedded once per seed, however many problems share them. Problems that the method can't handle,
    because it does not embed (`embed` is None) or does not tag (`label` is None), are left out.

    Args:
        trained_on: `en-de`, `en-de+en-es`, or empty.
        seeds: training seeds; None: the method is not trained, and has only the rows whose seed is null.
        fingerprint: of config and inputs.
    """
    if seeds is not None and (not seeds or len(set(seeds)) < len(seeds)):
        raise ValueError(f"seeds are {list(seeds)}; they must be distinct and at least one (None: untrained)")
    subject = {"method": method, "encoder": encoder, "trained_on": trained_on}
    runs: Sequence[int | None] = (None,) if seeds is None else seeds
    measured: dict[tuple[int, str], list[list[Measurement]]] = {}
    rankings = []
    for seed, index, embedding, measurements in _scored(problems, embed, label, runs):
        without_rankings = [replace(measurement, ranking=None) for measurement in measurements]
        measured.setdefault((index, embedding), []).append(without_rankings)
        if seed == runs[0] or config.rankings_seeds == "all":
            ranking_columns = {**_identity(problems[index], embedding), **subject, "seed": seed}
            rankings += [_ranking_table(m.ranking, ranking_columns) for m in measurements if m.ranking]
    run_columns = {**subject, "fingerprint": fingerprint, "created_at": created_at}
    rows, outcomes = [], []
    for (index, embedding), by_seed in sorted(measured.items(), key=lambda item: item[0][0]):
        problem = problems[index]
        identity = {**_identity(problem, embedding), "settings": json.dumps(dict(problem.settings), sort_keys=True)}
        rows += [{**identity, **run_columns, **row} for row in _rows(by_seed, seeds, config)]
        outcomes += [{**identity, **subject, **row} for row in _outcomes(by_seed, runs)]
    empty = SCHEMAS["rankings"].empty_table()
    return Evaluated(
        metrics=rows_table(rows, "metrics"),
        rankings=pa.concat_tables([empty, *rankings]).combine_chunks(),
        outcomes=rows_table(outcomes, "outcomes"),
    )


def _identity(problem: Problem | LabelProblem, embedding: str) -> dict[str, str]:
    of_problem = {name: getattr(problem, name) for name in ("task", "dataset", "evaluated_on")}
    return {**of_problem, "embedding": embedding}


# --- scores -----------------------------------------------------------------------------------------------


def _scored(
    problems: Sequence[Problem | LabelProblem], embed: Embed | None, label: Label | None, seeds: Sequence[int | None]
) -> Iterator[tuple[int | None, int, str, list[Measurement]]]:
    """Yield seed, index of the problem, embedding and measurements."""
    scorable = [
        (index, problem)
        for index, problem in enumerate(problems)
        if (embed if isinstance(problem, Problem) else label) is not None
    ]
    progress = Progress(log, len(seeds) * len(scorable), "problems scored")
    for turn, seed in enumerate(seeds):
        cache = _EmbeddingCache([problem for _, problem in scorable if isinstance(problem, Problem)], embed, seed)
        for done, (index, problem) in enumerate(scorable, start=1):
            if isinstance(problem, Problem):
                for embedding, matrices in cache.matrices(problem):
                    yield seed, index, embedding, problem.score(matrices)
            elif label is not None and (tags := label(problem, seed)) is not None:
                yield seed, index, "sentence", problem.score(tags)
            progress.advance(turn * len(scorable) + done)


class _EmbeddingCache:
    """Embeddings of one seed, kept from their first use by a problem to their last."""

    def __init__(self, problems: Sequence[Problem], embed: Embed | None, seed: int | None) -> None:
        self.embed, self.seed = embed, seed
        self.embedded: dict[str, Mapping[str, Embedded]] = {}
        self.uses = Counter(address for problem in problems for address in _addresses(problem))

    def matrices(self, problem: Problem) -> Iterator[tuple[str, dict[str, Embedded]]]:
        """Yield, in order, for each embedding that all roles have and the problem can score, the matrices by role."""
        assert self.embed is not None
        for texts in problem.texts.values():
            if texts.address not in self.embedded:
                self.embedded[texts.address] = _checked(self.embed(texts, self.seed), texts, self.seed)
        by_role = {role: self.embedded[texts.address] for role, texts in problem.texts.items()}
        for name in next(iter(by_role.values())):
            matrices = {role: embedded[name] for role, embedded in by_role.items() if name in embedded}
            is_matrix = all(isinstance(matrix, np.ndarray) for matrix in matrices.values())
            is_usable = (is_matrix or problem.takes_late_interaction) and problem.applies_to(name)
            if is_usable and len(matrices) == len(by_role):
                yield name, matrices
        for address in _addresses(problem):
            self.uses[address] -= 1
            if not self.uses[address]:
                del self.embedded[address]


def _addresses(problem: Problem) -> set[str]:
    return {texts.address for texts in problem.texts.values()}


def _checked(embedded: Mapping[str, Embedded], texts: Texts, seed: int | None) -> Mapping[str, Embedded]:
    for name, matrix in embedded.items():
        title = f"embedding {name!r} of {len(texts)} {texts.language} texts, seed {seed}"
        shape = matrix.shape if isinstance(matrix, np.ndarray) else (len(matrix), 1)
        if len(shape) != 2 or shape[0] != len(texts):
            raise EncoderError(f"{title}: the matrix has shape {shape}, not one row for each text")
        if isinstance(matrix, np.ndarray):
            check_finite(matrix, title)
        share(matrix)
    return embedded


# --- rows -------------------------------------------------------------------------------------------------


def _rows(
    by_seed: Sequence[Sequence[Measurement]], seeds: Sequence[int] | None, config: EvaluationConfig
) -> Iterator[dict[str, object]]:
    for measurements in zip(*by_seed, strict=True):
        yield _row(measurements, None, config)
        for seed, measurement in zip(seeds or (), measurements, strict=seeds is not None):
            yield _row([measurement], seed, config)


def _row(measurements: Sequence[Measurement], seed: int | None, config: EvaluationConfig) -> dict[str, object]:
    mean = aggregate(measurements, samples=config.bootstrap_samples, seed=config.bootstrap_seed, over=config.intervals)
    return {"seed": seed, **{name: getattr(mean, name) for name in ("metric", "value", "ci_low", "ci_high", "n")}}


def _outcomes(by_seed: Sequence[Sequence[Measurement]], runs: Sequence[int | None]) -> Iterator[dict[str, object]]:
    for measurements in zip(*by_seed, strict=True):
        for seed, measurement in zip(runs, measurements, strict=True):
            if (items := measurement.items) is not None:
                columns = int(np.prod(items.shape[1:]))
                if statistic_of(measurement.metric, columns) not in (None, measurement.statistic):
                    name = measurement.metric
                    raise ValueError(f"{name} is not computed by the statistic of that name")
                values = items.ravel().astype(np.float32)
                yield {"metric": measurement.metric, "seed": seed, "columns": columns, "items": values}


def _ranking_table(ranking: Ranking, others: Mapping[str, str | int | None]) -> pa.Table:
    """Return rows of `rankings`, one for each query and rank, with the values of the other columns of the table."""
    queries, k = ranking.indices.shape
    schema = SCHEMAS["rankings"]
    columns = {
        "query_id": ranking.query_ids.take(pa.array(np.repeat(np.arange(queries), k))),
        "rank": pa.array(np.tile(np.arange(1, k + 1, dtype=np.int32), queries)),
        "candidate_id": ranking.candidate_ids.take(pa.array(ranking.indices.ravel())),
        "score": pa.array(ranking.scores.ravel().astype(np.float32)),
        "is_gold": pa.array(ranking.is_gold.ravel()),
    }
    for name, value in others.items():
        columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), queries * k)
    return conform(pa.table(columns), schema, "rankings")

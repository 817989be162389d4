"""One method on problems: every embedding, each seed and the mean over seeds, as rows of `metrics`; and their items."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from disent_core.errors import EncoderError
from disent_core.evaluation.contract import Embedded, EvaluationConfig, LabelProblem, Problem, Setting, Texts
from disent_core.evaluation.measurement import Measurement, Ranking
from disent_core.evaluation.metrics.intervals import aggregate
from disent_core.evaluation.metrics.ranking import check_finite
from disent_core.evaluation.metrics.statistics import statistic_of
from disent_core.progress import Progress
from disent_core.storage.tables import SCHEMAS, conform, rows_table

Embed = Callable[[Texts, int | None], Mapping[str, Embedded]]
"""From texts and a seed (None: untrained) to one matrix, `texts dim`, for each embedding of the method; or to a
late interaction."""

Label = Callable[[LabelProblem, int | None], Sequence[Sequence[str]] | None]
"""From a problem's sentences and a seed to their tags; None where the method was not trained for the language."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluated:
    """Tables of what one method reached.

    Attributes:
        metrics: one row a number, with its interval.
        rankings: one row for each query and rank of a retrieval.
        outcomes: one row for each number of each seed (null: untrained) that is a function of items, with
            them: row by row, `columns` values an item. float32 has hits and counts exactly, and a correlation
            made of it again is the same to 1e-6.
    """

    metrics: pa.Table
    rankings: pa.Table
    outcomes: pa.Table


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
    settings: Mapping[str, Setting] | None = None,
) -> Evaluated:
    """Tables `metrics`, `rankings` and `outcomes` of one method.

    For each problem, embedding and metric there is one row whose seed is null, the mean over seeds, and one
    row for each seed. Texts are embedded once a seed, however many problems share them. What a method can't
    do (embed, or tag) is left out.

    Args:
        problems: what to score on.
        embed: the method; None: it has no embedding.
        label: the method; None: it does not tag.
        method: its name.
        encoder: name of the encoder beneath it.
        trained_on: `en-de`, `en-de+en-es`, or empty.
        seeds: of its trainings; None: it is not trained, and has only the rows whose seed is null.
        config: of the evaluation.
        fingerprint: of config and inputs.
        created_at: time of the run, with its zone.
        settings: more entries for the settings column.

    Raises:
        EncoderError: if `embed` gives values that are not finite, or not one row a text.
        ValueError: if seeds are empty or repeated, or a metric is no statistic that `statistics.statistic_of` has
            for its name.
    """
    if seeds is not None and (not seeds or len(set(seeds)) < len(seeds)):
        raise ValueError(f"seeds are {list(seeds)}; they must be distinct and at least one (None: untrained)")
    subject = {"method": method, "encoder": encoder, "trained_on": trained_on}
    runs: Sequence[int | None] = (None,) if seeds is None else seeds
    found: dict[tuple[int, str], list[list[Measurement]]] = {}
    rankings = []
    for seed, place, embedding, measurements in _scored(problems, embed, label, runs):
        problem = problems[place]
        kept = [replace(measurement, ranking=None) for measurement in measurements]
        found.setdefault((place, embedding), []).append(kept)
        if seed != runs[0] and config.rankings_seeds == "first":
            continue
        where = {**_identity(problem, embedding), **subject, "seed": seed}
        rankings += [ranking_table(each.ranking, where) for each in measurements if each.ranking]
    stamp = {**subject, "fingerprint": fingerprint, "created_at": created_at}
    rows, outcomes = [], []
    for (place, embedding), by_seed in sorted(found.items(), key=lambda item: item[0][0]):
        problem = problems[place]
        about = json.dumps({**(settings or {}), **problem.settings}, sort_keys=True)
        own = {**_identity(problem, embedding), "settings": about}
        rows += [{**own, **stamp, **row} for row in _rows(by_seed, seeds, config)]
        outcomes += [{**own, **subject, **row} for row in _outcomes(by_seed, runs)]
    empty = SCHEMAS["rankings"].empty_table()
    return Evaluated(
        metrics=rows_table(rows, "metrics"),
        rankings=pa.concat_tables([empty, *rankings]).combine_chunks(),
        outcomes=rows_table(outcomes, "outcomes"),
    )


def _identity(problem: Problem | LabelProblem, embedding: str) -> dict[str, str]:
    return {
        "task": problem.task,
        "dataset": problem.dataset,
        "evaluated_on": problem.evaluated_on,
        "embedding": embedding,
    }


# --- scores -----------------------------------------------------------------------------------------------

_Scored = tuple[int | None, int, str, list[Measurement]]
"""Seed, place of the problem, embedding, measurements."""


def _scored(
    problems: Sequence[Problem | LabelProblem],
    embed: Embed | None,
    label: Label | None,
    seeds: Sequence[int | None],
) -> Iterator[_Scored]:
    places = enumerate(problems)
    mine = [(place, each) for place, each in places if (embed if isinstance(each, Problem) else label) is not None]
    progress = Progress(_log, len(seeds) * len(mine), "problems scored")
    for turn, seed in enumerate(seeds):
        held = _Held([each for _, each in mine if isinstance(each, Problem)], embed, seed)
        for done, (place, problem) in enumerate(mine, start=1):
            if isinstance(problem, Problem):
                for embedding, matrices in held.matrices(problem):
                    yield seed, place, embedding, problem.score(matrices)
            elif label is not None and (tags := label(problem, seed)) is not None:
                yield seed, place, "sentence", problem.score(tags)
            progress.advance(turn * len(mine) + done)


class _Held:
    """Embeddings of one seed, from the first problem that asks for them to the last."""

    def __init__(self, problems: Sequence[Problem], embed: Embed | None, seed: int | None) -> None:
        self.embed, self.seed = embed, seed
        self.held: dict[str, Mapping[str, Embedded]] = {}
        self.uses = Counter(address for each in problems for address in _addresses(each))

    def matrices(self, problem: Problem) -> Iterator[tuple[str, dict[str, Embedded]]]:
        """Matrices by role, for each embedding."""
        assert self.embed is not None
        for texts in problem.texts.values():
            if texts.address not in self.held:
                self.held[texts.address] = _checked(self.embed(texts, self.seed), texts, self.seed)
        yield from _by_embedding(problem, self.held)
        for address in _addresses(problem):
            self.uses[address] -= 1
            if not self.uses[address]:
                del self.held[address]


def _addresses(problem: Problem) -> set[str]:
    return {texts.address for texts in problem.texts.values()}


def _checked(embedded: Mapping[str, Embedded], texts: Texts, seed: int | None) -> Mapping[str, Embedded]:
    for name, matrix in embedded.items():
        what = f"embedding {name!r} of {len(texts)} {texts.language} texts, seed {seed}"
        shape = matrix.shape if isinstance(matrix, np.ndarray) else (len(matrix), 1)
        if len(shape) != 2 or shape[0] != len(texts):
            raise EncoderError(f"{what}: the matrix has shape {shape}, not one row for each text")
        if isinstance(matrix, np.ndarray):
            check_finite(matrix, what)
    return embedded


def _by_embedding(
    problem: Problem, held: Mapping[str, Mapping[str, Embedded]]
) -> Iterator[tuple[str, dict[str, Embedded]]]:
    """Matrices by role for each embedding that every role has and the problem can use, in the method's order."""
    by_role = {role: held[texts.address] for role, texts in problem.texts.items()}
    for name in next(iter(by_role.values())):
        own = {role: embedded[name] for role, embedded in by_role.items() if name in embedded}
        usable = problem.takes_late_interaction or all(isinstance(matrix, np.ndarray) for matrix in own.values())
        if usable and problem.applies_to(name) and len(own) == len(by_role):
            yield name, own


# --- rows -------------------------------------------------------------------------------------------------


def _rows(
    by_seed: Sequence[Sequence[Measurement]],
    seeds: Sequence[int] | None,
    config: EvaluationConfig,
) -> Iterator[dict[str, object]]:
    """The aggregate row of each metric, then one for each seed."""
    for measurements in zip(*by_seed, strict=True):
        yield _row(measurements, None, config)
        for seed, measurement in zip(seeds or (), measurements, strict=seeds is not None):
            yield _row([measurement], seed, config)


def _row(measurements: Sequence[Measurement], seed: int | None, config: EvaluationConfig) -> dict[str, object]:
    whole = aggregate(measurements, samples=config.bootstrap_samples, seed=config.bootstrap_seed)
    return {
        "metric": whole.metric,
        "value": whole.value,
        "ci_low": whole.ci_low,
        "ci_high": whole.ci_high,
        "n": whole.n,
        "seed": seed,
    }


def _outcomes(by_seed: Sequence[Sequence[Measurement]], runs: Sequence[int | None]) -> Iterator[dict[str, object]]:
    """The items of each metric that has some, for each seed."""
    for measurements in zip(*by_seed, strict=True):
        for seed, measurement in zip(runs, measurements, strict=True):
            if (items := measurement.items) is not None:
                columns = int(np.prod(items.shape[1:]))
                if statistic_of(measurement.metric, columns) not in (None, measurement.statistic):
                    named = measurement.metric
                    raise ValueError(f"{named} is measured by a statistic that its name does not stand for")
                values = items.ravel().astype(np.float32)
                yield {"metric": measurement.metric, "seed": seed, "columns": columns, "items": values}


def ranking_table(ranking: Ranking, where: Mapping[str, str | int | None]) -> pa.Table:
    """Rows of `rankings`: one for each query and rank.

    Args:
        ranking: its queries, candidates and scores.
        where: value of every other column of the table.
    """
    queries, k = ranking.indices.shape
    schema = SCHEMAS["rankings"]
    columns = {
        "query_id": ranking.query_ids.take(pa.array(np.repeat(np.arange(queries), k))),
        "rank": pa.array(np.tile(np.arange(1, k + 1, dtype=np.int32), queries)),
        "candidate_id": ranking.candidate_ids.take(pa.array(ranking.indices.ravel())),
        "score": pa.array(ranking.scores.ravel().astype(np.float32)),
        "is_gold": pa.array(ranking.is_gold.ravel()),
    }
    for name, value in where.items():
        columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), queries * k)
    return conform(pa.table(columns), schema, "rankings")

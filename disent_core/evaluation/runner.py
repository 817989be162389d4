"""One method on problems: every embedding, each seed and the mean over seeds, as rows of `metrics`."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from disent_core.errors import EncoderError
from disent_core.evaluation.contract import EvaluationConfig, Measurement, Problem, Ranking, Setting, Texts
from disent_core.evaluation.intervals import aggregate
from disent_core.evaluation.retrieval import check_finite
from disent_core.tables import SCHEMAS, conform, rows_table

Embed = Callable[[Texts, int | None], Mapping[str, np.ndarray]]
"""From texts and a seed (None: untrained) to one matrix, `texts dim`, for each embedding of the method."""

_LOG_SECONDS = 5.0
_log = logging.getLogger(__name__)


def evaluate(
    problems: Sequence[Problem],
    embed: Embed,
    *,
    method: str,
    encoder: str,
    trained_on: str,
    seeds: Sequence[int] | None,
    config: EvaluationConfig,
    fingerprint: str,
    created_at: datetime,
    settings: Mapping[str, Setting] | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Tables `metrics` and `rankings` of one method.

    For each problem, embedding and metric there is one row whose seed is null, the mean over seeds, and one
    row for each seed. Texts are embedded once a seed, however many problems share them.

    Args:
        problems: what to score on.
        embed: the method.
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
        ValueError: if seeds are empty or repeated.
    """
    if seeds is not None and (not seeds or len(set(seeds)) < len(seeds)):
        raise ValueError(f"seeds are {list(seeds)}; they must be distinct and at least one (None: untrained)")
    subject = {"method": method, "encoder": encoder, "trained_on": trained_on}
    runs: Sequence[int | None] = (None,) if seeds is None else seeds
    found: dict[tuple[int, str], list[list[Measurement]]] = {}
    rankings = []
    for seed, place, embedding, matrices in _embedded(problems, embed, runs):
        problem = problems[place]
        measurements = problem.score(matrices)
        kept = [replace(measurement, ranking=None) for measurement in measurements]
        found.setdefault((place, embedding), []).append(kept)
        if seed != runs[0] and config.rankings_seeds == "first":
            continue
        where = {**_identity(problem, embedding), **subject, "seed": seed}
        rankings += [ranking_table(each.ranking, where) for each in measurements if each.ranking]
    stamp = {**subject, "fingerprint": fingerprint, "created_at": created_at}
    rows = [
        {**_identity(problems[place], embedding), **stamp, **row}
        for (place, embedding), by_seed in sorted(found.items(), key=lambda item: item[0][0])
        for row in _rows(by_seed, seeds, config, {**(settings or {}), **problems[place].settings})
    ]
    empty = SCHEMAS["rankings"].empty_table()
    return rows_table(rows, "metrics"), pa.concat_tables([empty, *rankings]).combine_chunks()


def _identity(problem: Problem, embedding: str) -> dict[str, str]:
    return {
        "task": problem.task,
        "dataset": problem.dataset,
        "evaluated_on": problem.evaluated_on,
        "embedding": embedding,
    }


# --- matrices ---------------------------------------------------------------------------------------------

_Scored = tuple[int | None, int, str, Mapping[str, np.ndarray]]


def _embedded(problems: Sequence[Problem], embed: Embed, seeds: Sequence[int | None]) -> Iterator[_Scored]:
    """Seed, place of the problem, embedding, and its matrices by role."""
    last_use = {id(texts): place for place, each in enumerate(problems) for texts in each.texts.values()}
    started = logged = time.monotonic()
    for turn, seed in enumerate(seeds):
        held: dict[int, Mapping[str, np.ndarray]] = {}
        for place, problem in enumerate(problems):
            for texts in problem.texts.values():
                if id(texts) not in held:
                    held[id(texts)] = _checked(embed(texts, seed), texts, seed)
            for embedding, matrices in _by_embedding(problem, held):
                yield seed, place, embedding, matrices
            for address in [address for address in held if last_use[address] <= place]:
                del held[address]
            if (now := time.monotonic()) - logged > _LOG_SECONDS:
                logged = now
                _log_progress(turn * len(problems) + place + 1, len(seeds) * len(problems), now - started)


def _log_progress(done: int, total: int, seconds: float) -> None:
    left = seconds / done * (total - done)
    _log.info("%d of %d problems scored, %.1f a minute, %.0f s left", done, total, 60 * done / seconds, left)


def _checked(matrices: Mapping[str, np.ndarray], texts: Texts, seed: int | None) -> Mapping[str, np.ndarray]:
    for name, matrix in matrices.items():
        what = f"embedding {name!r} of {len(texts)} {texts.language} texts, seed {seed}"
        if matrix.ndim != 2 or len(matrix) != len(texts):
            raise EncoderError(f"{what}: the matrix has shape {matrix.shape}, not one row for each text")
        check_finite(matrix, what)
    return matrices


def _by_embedding(
    problem: Problem, held: Mapping[int, Mapping[str, np.ndarray]]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Matrices by role for each embedding that every role has, in the method's order."""
    by_role = {role: held[id(texts)] for role, texts in problem.texts.items()}
    for name in next(iter(by_role.values())):
        if problem.applies_to(name) and all(name in matrices for matrices in by_role.values()):
            yield name, {role: matrices[name] for role, matrices in by_role.items()}


# --- rows -------------------------------------------------------------------------------------------------


def _rows(
    by_seed: Sequence[Sequence[Measurement]],
    seeds: Sequence[int] | None,
    config: EvaluationConfig,
    settings: Mapping[str, Setting],
) -> Iterator[dict[str, object]]:
    """The aggregate row of each metric, then one for each seed; settings join them, so they are the same."""
    for measurements in zip(*by_seed, strict=True):
        yield _row(measurements, None, config, settings)
        for seed, measurement in zip(seeds or (), measurements, strict=seeds is not None):
            yield _row([measurement], seed, config, settings)


def _row(
    measurements: Sequence[Measurement],
    seed: int | None,
    config: EvaluationConfig,
    settings: Mapping[str, object],
) -> dict[str, object]:
    whole = aggregate(measurements, samples=config.bootstrap_samples, seed=config.bootstrap_seed)
    return {
        "metric": whole.metric,
        "value": whole.value,
        "ci_low": whole.ci_low,
        "ci_high": whole.ci_high,
        "n": whole.n,
        "seed": seed,
        "settings": json.dumps(dict(settings), sort_keys=True),
    }


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

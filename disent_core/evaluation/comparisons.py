"""Test every pair of methods on every problem, from the items that `evaluate` keeps: rows of `comparisons`.

Methods with one run are compared by McNemar's test on hits and misses, and by a paired bootstrap on everything else:
would the difference hold on other items from the same source, given these heads? If methods have several seeds, these
are resampled too: would it also hold for other trainings? With `evaluation.intervals = "items"`, seeds are averaged,
not sampled. A *system* is a method with its training set.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from disent_core.errors import TableError
from disent_core.evaluation.contract import hubness_of
from disent_core.evaluation.measurement import Statistic, mean_of_items
from disent_core.evaluation.metrics.intervals import CONFIDENCE, Intervals, resampled, seeds_resampled
from disent_core.evaluation.metrics.statistics import (
    bootstrap_p,
    holm,
    mcnemar,
    mcnemar_exact,
    mean_intervals,
    statistic_of,
)
from disent_core.progress import Progress
from disent_core.storage.tables import SCHEMAS, conform

CODE_VERSION = "1"
"""Must change with every code change that changes rows of `comparisons`."""

_BOOTSTRAPS = np.array(
    [
        ["paired_bootstrap", "paired_bootstrap_normal"],
        ["seeds_and_items_bootstrap", "seeds_and_items_bootstrap_normal"],
    ]
)
"""Names of tests, by whether seeds are resampled and whether p is extrapolated."""
_BLOCK_DIFFERENCES = 1 << 22  # resampled differences held at once: 32 MB
log = logging.getLogger(__name__)


class _Problem(NamedTuple):
    task: str
    dataset: str
    encoder: str
    evaluated_on: str
    metric: str
    settings: str

    @property
    def family(self) -> tuple[str, ...]:
        return (self.task, self.dataset, self.encoder, self.metric, hubness_of(self.settings))


@dataclass(frozen=True, kw_only=True, eq=False)
class _System:
    """A trained method on a problem, with the embedding it is ranked by."""

    method: str
    trained_on: str
    embedding: str
    items: Float[np.ndarray, "runs n columns"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tested:
    """The value of each system, and the interval, p and test name of each pair of systems."""

    values: Float[np.ndarray, " systems"]
    low: Float[np.ndarray, " pairs"]
    high: Float[np.ndarray, " pairs"]
    p: Float[np.ndarray, " pairs"]
    test: np.ndarray


def compare(
    outcomes: Iterable[pa.Table],
    ranked: Mapping[str, Sequence[str]],
    *,
    samples: int,
    seed: int,
    over: Intervals = "items",
    fingerprint: str,
    created_at: datetime,
) -> pa.Table:
    """Return table `comparisons`: every pair of methods on every problem once, in order of their names.

    A problem is a data set, languages, metric and settings. A method takes part once for each `trained_on`, with the
    first embedding of `Task.ranked` that it has. Two systems are compared if they have the same training set, or if
    one is untrained. Values are means over seeds. Tests, by name:

    * `mcnemar_exact`: hits and misses, one run per method; `mcnemar`: their means over seeds, by the score statistic,
      if only items are resampled. Both have Wald intervals.
    * `paired_bootstrap`: any other statistic, on resamplings that all methods share, with the percentile interval;
      `paired_bootstrap_normal` if p is too small to be counted (`statistics.bootstrap_p`).
    * `seeds_and_items_bootstrap`, `seeds_and_items_bootstrap_normal`: the same, where a method has several runs and
      `over` is `seeds_and_items`, hits included. Each method's seeds are drawn apart (`intervals.seeds_resampled`),
      since training k of two methods has nothing in common.

    `p_holm` is corrected over a family: all pairs on all problems of a task, data set, encoder, metric and correction
    for hubs. Other settings do not separate families, because they hold facts of each language (the size of its pool).
    Comparisons that are impossible are left out and logged: a metric of several columns without a statistic, or methods
    with different numbers of items.

    Outcomes must contain whole families; tasks and embeddings that are not in `ranked` (`Task.ranked` by task) are left
    out. `samples` and `seed` are the bootstrap's, `fingerprint` is of all inputs.
    """
    problems = _items_by_problem(outcomes, ranked)
    progress = Progress(log, len(problems), "problems compared")
    tables, families, p = [], [], []
    for done, (problem, methods) in enumerate(sorted(problems.items()), start=1):
        for systems in _comparable(problem, methods, ranked[problem.task]):
            pairs = _fair_pairs(systems)
            tested = _tested(problem, systems, pairs, samples=samples, seed=seed, over=over)
            tables.append(_table(problem, systems, pairs, tested))
            families += [problem.family] * len(tested.p)
            p.append(tested.p)
        progress.advance(done)
    schema = SCHEMAS["comparisons"]
    if not tables:
        return schema.empty_table()
    table = pa.concat_tables(tables).append_column("p_holm", pa.array(_corrected(np.concatenate(p), families)))
    for name, value in (("fingerprint", fingerprint), ("created_at", created_at)):
        table = table.append_column(name, pa.repeat(pa.scalar(value, schema.field(name).type), len(table)))
    return conform(table.combine_chunks(), schema, "comparisons")


# --- what is compared -------------------------------------------------------------------------------------

_Runs = dict[int | None, Float[np.ndarray, "n columns"]]
_Pairs = tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]
"""Indices of the first and of the second system of each pair."""
_Methods = dict[tuple[str, str], dict[str, _Runs]]
"""Items by method and `trained_on`, then embedding, then seed."""


def _items_by_problem(outcomes: Iterable[pa.Table], ranked: Mapping[str, Sequence[str]]) -> dict[_Problem, _Methods]:
    by_problem: dict[_Problem, _Methods] = {}
    for row, items in chain.from_iterable(map(_rows, outcomes)):
        if row["embedding"] not in ranked.get(row["task"], ()):
            continue
        problem = _Problem(*(row[name] for name in _Problem._fields))
        embeddings = by_problem.setdefault(problem, {}).setdefault((row["method"], row["trained_on"]), {})
        runs = embeddings.setdefault(row["embedding"], {})
        if row["seed"] in runs:
            raise TableError(f"outcomes of {row['method']} on {problem}: seed {row['seed']} appears twice")
        runs[row["seed"]] = items.reshape(-1, row["columns"]).copy()  # releases the table
    return by_problem


def _rows(table: pa.Table) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    rows = iter(table.drop_columns(["items"]).to_pylist())
    for chunk in table["items"].chunks:
        values = chunk.values.to_numpy()
        for start, end in pairwise(chunk.offsets.to_numpy()):
            yield next(rows), values[start:end]


def _comparable(problem: _Problem, methods: _Methods, ranked: Sequence[str]) -> Iterator[list[_System]]:
    """Yield groups of systems, sorted by name, whose items have the same shape; none if the metric has no statistic."""
    groups: dict[tuple[int, ...], list[_System]] = {}
    for (method, trained_on), embeddings in sorted(methods.items()):
        embedding = min(embeddings, key=list(ranked).index)
        runs = embeddings[embedding]
        if len(shapes := {items.shape for items in runs.values()}) > 1:
            raise TableError(
                f"outcomes of {method} on {problem}: seeds have items of different shapes {sorted(shapes)}"
            )
        items = np.stack(list(runs.values())).astype(float)
        system = _System(method=method, trained_on=trained_on, embedding=embedding, items=items)
        groups.setdefault(items.shape[1:], []).append(system)
    if len(groups) > 1:
        sizes = {shape: [system.method for system in group] for shape, group in groups.items()}
        log.warning("%s: methods with unequal items (number, columns) are not compared: %s", problem, sizes)
    for (_, columns), group in groups.items():
        if statistic_of(problem.metric, columns) is None:
            log.warning("%s: not compared, because statistics.STATISTICS does not name this metric", problem)
        elif len(group) > 1:
            yield group


def _fair_pairs(systems: Sequence[_System]) -> _Pairs:
    trained_on = np.array([system.trained_on for system in systems])
    # systems x systems; the upper triangle has each pair once.
    is_fair = (trained_on[:, None] == trained_on) | (trained_on[:, None] == "") | (trained_on == "")
    first, second = np.nonzero(np.triu(is_fair, 1))
    return first, second


# --- tests ------------------------------------------------------------------------------------------------


def _tested(
    problem: _Problem, systems: Sequence[_System], pairs: _Pairs, *, samples: int, seed: int, over: Intervals
) -> _Tested:
    is_hits = all(system.items.shape[2] == 1 and np.isin(system.items, (0.0, 1.0)).all() for system in systems)
    if is_hits and (over == "items" or all(len(system.items) == 1 for system in systems)):
        return _hits_tested(systems, pairs)
    statistic = statistic_of(problem.metric, systems[0].items.shape[2])
    assert statistic is not None
    tested = _bootstrapped(systems, pairs, statistic, samples=samples, seed=seed, over=over)
    if not is_hits:
        return tested
    of_hits = _hits_tested(systems, pairs)
    is_exact = of_hits.test == "mcnemar_exact"
    return _Tested(
        values=of_hits.values,
        **{
            name: np.where(is_exact, getattr(of_hits, name), getattr(tested, name))
            for name in ("low", "high", "p", "test")
        },
    )


def _hits_tested(systems: Sequence[_System], pairs: _Pairs) -> _Tested:
    """Run McNemar's tests on the hits of each system, summed over its runs."""
    from scipy.special import ndtri

    runs = np.array([len(system.items) for system in systems])
    scale = math.lcm(*runs.tolist())  # in units of 1 / scale, hits are whole numbers with exact sums of squares
    hits = np.stack([system.items.sum(axis=(0, 2)) * (scale // len(system.items)) for system in systems])
    p, once = mcnemar(hits), np.flatnonzero(runs == 1)
    p[np.ix_(once, once)] = mcnemar_exact(hits[once] / scale)
    low, high = mean_intervals(hits, z=float(ndtri(0.5 + CONFIDENCE / 2)))
    first, second = pairs
    is_exact = (runs[first] == 1) & (runs[second] == 1)
    return _Tested(
        values=hits.mean(axis=1) / scale,
        low=low[pairs] / scale,
        high=high[pairs] / scale,
        p=p[pairs],
        test=np.where(is_exact, "mcnemar_exact", "mcnemar"),
    )


def _bootstrapped(
    systems: Sequence[_System], pairs: _Pairs, statistic: Statistic, *, samples: int, seed: int, over: Intervals
) -> _Tested:
    """Resample the items of all runs of all systems at once, then average over runs or over draws of runs."""
    first, second = pairs
    items = [system.items[..., 0] if statistic is mean_of_items else system.items for system in systems]
    counts = np.array([len(runs) for runs in items])
    drawn = resampled(np.concatenate(items), samples=samples, seed=seed, statistic=statistic)
    # runs x samples -> systems x samples: each system owns a block of consecutive rows.
    starts = np.cumsum(counts) - counts
    if over == "items":
        means, is_of_seeds = np.add.reduceat(drawn, starts, axis=0) / counts[:, None], np.zeros(len(counts), dtype=bool)
    else:
        names = [f"{system.method} {system.trained_on}" for system in systems]
        blocks = np.split(drawn, starts[1:])
        means = np.stack([seeds_resampled(of, seed=seed, name=name) for of, name in zip(blocks, names, strict=True)])
        is_of_seeds = counts > 1
    ends, p, is_normal = np.empty((2, len(first))), np.empty(len(first)), np.empty(len(first), dtype=bool)
    step = max(1, _BLOCK_DIFFERENCES // samples)  # pairs per block
    for start in range(0, len(first), step):
        block = slice(start, start + step)
        differences = means[first[block]] - means[second[block]]
        ends[:, block] = np.percentile(differences, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)], axis=1)
        p[block], is_normal[block] = bootstrap_p(differences)
    return _Tested(
        values=np.array([statistic(runs).mean() for runs in items]),
        low=ends[0],
        high=ends[1],
        p=p,
        test=_BOOTSTRAPS[(is_of_seeds[first] | is_of_seeds[second]).astype(int), is_normal.astype(int)],
    )


# --- rows -------------------------------------------------------------------------------------------------


def _table(problem: _Problem, systems: Sequence[_System], pairs: _Pairs, tested: _Tested) -> pa.Table:
    """Return one row per pair, without the columns that are the same for the whole table."""
    columns = {name: pa.repeat(pa.scalar(value), len(tested.p)) for name, value in problem._asdict().items()}
    for side, indices in zip("ab", pairs, strict=True):
        for name in ("method", "trained_on", "embedding"):
            columns[f"{name}_{side}"] = pa.array([getattr(system, name) for system in systems]).take(pa.array(indices))
        columns[f"value_{side}"] = pa.array(tested.values[indices])
    columns["difference"] = pa.array(tested.values[pairs[0]] - tested.values[pairs[1]])
    columns["ci_low"], columns["ci_high"] = pa.array(tested.low), pa.array(tested.high)
    columns["n"] = pa.array(np.full(len(tested.p), systems[0].items.shape[1]))
    columns["test"], columns["p_value"] = pa.array(tested.test.tolist(), pa.string()), pa.array(tested.p)
    return pa.table(columns)


def _corrected(p: Float[np.ndarray, " tests"], families: Sequence[tuple[str, ...]]) -> Float[np.ndarray, " tests"]:
    numbers = {family: number for number, family in enumerate(dict.fromkeys(families))}
    codes = np.array([numbers[family] for family in families])
    corrected = np.empty_like(p)
    for number in range(len(numbers)):
        corrected[codes == number] = holm(p[codes == number])
    return corrected

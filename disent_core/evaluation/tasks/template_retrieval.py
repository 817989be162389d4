"""Retrieve the utterance with the same template: the text of the query with every slot value replaced.

FMDA's protocol: the query is the source text, candidates are the generated targets of all sources, the target of the
query is gold, the metric is accuracy at 1. The id of a query is `source_utterance_id`, that of a candidate
`source_utterance_id#target_index`.

In `multi_target_template_retrieval` each source has several gold targets (FMDA: 5), and the metric is MAP. Candidates
are the targets of all sources that take part.

Sources may share a template, and then nothing tells the target of the query from the targets of the others: the view
`ceilings` has the accuracy beyond which only luck leads. In `same_template_retrieval` every candidate with the template
of the query is gold: the same words outside of slots, and the same slot types, in the same order.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from disent_core.errors import TableError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.tasks.monolingual_retrieval import template_and_values
from disent_core.evaluation.tasks.retrieval_problem import Pool, retrieval_problem


def problems(
    inputs: Inputs,
    config: EvaluationConfig,
    *,
    task: str,
    metric: Literal["accuracy_at_1", "map"] = "accuracy_at_1",
    same_template: bool = False,
) -> list[Problem]:
    """Return the problem of one language: the first target of each source is gold or, for MAP, the first few.

    With `same_template` every candidate is gold whose source has the template of the query's source. Sources with fewer
    targets are left out, or have fewer gold candidates (`config.multi_target_few`). There is no problem if no source of
    the split has targets enough.
    """
    (language,) = inputs.languages
    targets = config.multi_targets if metric == "map" else 1
    pairs = _pairs(inputs.tables["template_pairs", language], config, targets)
    if not pairs.num_rows:
        return []
    source, gold = _group(pairs["source_utterance_id"], targets, f"{inputs.corpus} {language}")
    first = pa.array(np.unique(source, return_index=True)[1])
    ids = pairs["source_utterance_id"].combine_chunks()
    queries = Texts.of(language, pairs["source_text"].take(first).to_pylist())
    indices = pairs["target_index"].combine_chunks().cast(pa.string())
    pool = Pool(
        texts=Texts.of(language, pairs["target_text"].to_pylist()),
        ids=pc.call_function("binary_join_element_wise", [ids, indices, "#"]),
        gold=gold,
    )
    query_ids = ids.take(first)
    templates = _templates(inputs, language, query_ids) if same_template else None
    if templates is not None:
        pool = replace(pool, gold=_of_equal(templates, templates[source]))
    if config.template_pool == "targets+sources":
        pool = _with_sources(pool, queries, query_ids, templates)
    return [
        retrieval_problem(
            queries,
            query_ids,
            pool,
            config,
            task=task,
            dataset=inputs.corpus,
            evaluated_on=language,
            metric=metric,
            settings={"pool": config.template_pool, "targets": targets, "few": config.multi_target_few},
        )
    ]


def _pairs(pairs: pa.Table, config: EvaluationConfig, targets: int) -> pa.Table:
    """Return rows of the split with the first `targets` targets, without sources that have too few."""
    chosen = pairs.filter((pc.field("split") == config.split) & (pc.field("target_index") < targets))
    if config.multi_target_few == "fewer" or not chosen.num_rows:
        return chosen
    source = _codes(chosen["source_utterance_id"])
    return chosen.filter(pa.array(np.bincount(source)[source] >= targets))


def _codes(ids: pa.ChunkedArray) -> Int[np.ndarray, " rows"]:
    """Number ids in order of first appearance."""
    return ids.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)


def _group(
    ids: pa.ChunkedArray, targets: int, where: str
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, "sources targets"]]:
    """Return for each row the number of its source, and for each source its rows, padded with -1."""
    source = _codes(ids)
    counts = np.bincount(source)
    if counts.max() > targets:
        name = ids[int(np.argmax(counts[source] > targets))]
        raise TableError(f"{where}: source utterance {name} of template_pairs repeats a target index")
    return source, _of_equal(np.arange(len(counts)), source, targets)


def _templates(inputs: Inputs, language: str, ids: pa.Array) -> Int[np.ndarray, " sources"]:
    utterances = inputs.tables["utterances", language]
    places = pc.index_in(ids, value_set=utterances["utterance_id"].combine_chunks())
    if places.null_count:
        missing = ids[pc.index(pc.is_null(places), pa.scalar(True)).as_py()]
        raise TableError(
            f"{inputs.corpus} {language}: source utterance {missing} of template_pairs is not among the utterances. "
            "Materialise template_pairs again"
        )
    rows = utterances.select(["tokens", "slot_tags"]).take(places)
    annotated = map(template_and_values, rows["tokens"].to_pylist(), rows["slot_tags"].to_pylist())
    numbers: dict[tuple[str, ...], int] = {}
    return np.array([numbers.setdefault(template, len(numbers)) for template, _ in annotated])


def _of_equal(
    queries: Int[np.ndarray, " queries"], candidates: Int[np.ndarray, " candidates"], width: int = 0
) -> Int[np.ndarray, "queries golds"]:
    """Return for each query the candidates with the same number, padded with -1 to at least `width`.

    >>> _of_equal(np.array([1, 0]), np.array([0, 1, 1])).tolist()
    [[1, 2], [0, -1]]
    """
    order = np.argsort(candidates, kind="stable")
    starts = np.searchsorted(candidates[order], queries)
    counts = np.searchsorted(candidates[order], queries, side="right") - starts
    places = np.arange(max(width, counts.max()))
    return np.where(places < counts[:, None], order[np.minimum(starts[:, None] + places, len(order) - 1)], -1)


def _with_sources(
    pool: Pool, queries: Texts, query_ids: pa.Array, templates: Int[np.ndarray, " sources"] | None
) -> Pool:
    """Add every distinct source text to the pool; the text of the query itself is skipped.

    With `templates` a source text is gold for the other sources of its template.
    """
    _, first, copy = np.unique(np.asarray(queries.keys), return_index=True, return_inverse=True)
    skip = len(pool.texts) + copy
    gold = pool.gold
    if templates is not None:
        sources = _of_equal(templates, templates[first])
        gold = np.hstack([gold, np.where(sources >= 0, sources + len(pool.texts), -1)])
        gold[gold == skip[:, None]] = -1
    return Pool(
        texts=pool.texts.then(queries.take(first.tolist())),
        ids=pa.concat_arrays([pool.ids, query_ids.take(pa.array(first))]),
        gold=gold,
        skip=skip,
    )


TASK = Task(
    name="template_retrieval",
    scope="language",
    tables=("template_pairs",),
    problems=partial(problems, task="template_retrieval"),
    ranked=("template", "meaning", "sentence"),
)
MULTI_TARGET = replace(
    TASK,
    name="multi_target_template_retrieval",
    problems=partial(problems, task="multi_target_template_retrieval", metric="map"),
)
SAME_TEMPLATE = replace(
    TASK,
    name="same_template_retrieval",
    tables=("template_pairs", "utterances"),
    problems=partial(problems, task="same_template_retrieval", same_template=True),
)

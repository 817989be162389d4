"""Retrieve another text of the same language: with the same slot values, or with the same translation.

* `value_retrieval` is the counterpart of template retrieval. A query is an utterance whose slots, by type and text, are
  also those of an utterance with another template: "wake me at *seven*" and "remind me at *seven*". Candidates are the
  annotated utterances of the language and split, each template with its values once. The nearest other one is right if
  it has the query's values. Templates with other values are candidates too, so an embedding that reads the template is
  drawn away from the values. Beside template retrieval that shows whether the parts of a method are apart: the residual
  should find values and no templates, the template templates and no values.
* `paraphrase_retrieval` takes sentences that share a translation as paraphrases. Candidates are the distinct sentences
  of a language and split; the nearest other one is right if it shares a translation with the query. Sentences that
  differ in case, punctuation and spaces alone count as one. Pairs of other splits are not looked at.

All embeddings are measured.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from disent_core.corpora.annotation import OUTSIDE
from disent_core.evaluation.contract import Embedded, EvaluationConfig, Inputs, Problem, Setting, Task, Texts
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.evaluation.tasks.parallel import parallel_texts, utterance_texts

VALUES_NAME, PARAPHRASES_NAME = "value_retrieval", "paraphrase_retrieval"


@dataclass(frozen=True, kw_only=True, eq=False)
class MonolingualProblem(Problem):
    """Texts by role `query` and `pool`; queries are candidates too, but not of themselves.

    Attributes:
        rows: of the queries among the candidates.
        gold: indices of the right candidates of each query, padded with -1.
    """

    takes_late_interaction: ClassVar[bool] = True

    rows: Int[np.ndarray, " queries"]
    gold: Int[np.ndarray, "queries golds"]

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return the share of queries whose nearest other candidate is right."""
        _, indices = nearest(matrices["query"], matrices["pool"], 1, skip=self.rows)
        return [measured("accuracy_at_1", (indices == self.gold).any(axis=1).astype(float))]


def value_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of one language; none if no two templates of the split share their slot values."""
    (language,) = inputs.languages
    utterances: pa.Table = inputs.tables["utterances", language]
    utterances = utterances.filter(pc.field("split") == config.split)
    annotated = list(map(template_and_values, utterances["tokens"].to_pylist(), utterances["slot_tags"].to_pylist()))
    rows = _first_rows(annotated)
    rows = [row for row in rows if annotated[row][1]]
    pool = utterance_texts(language, utterances.take(pa.array(rows, pa.int64())))
    return _problems(VALUES_NAME, inputs, config, pool, _sharing([annotated[row][1]] for row in rows))


def paraphrase_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of each language of a pair; none if no two of its sentences share a translation."""
    _, (source, target) = parallel_texts(inputs, config.split)
    problems = []
    for side, other in ((source, target), (target, source)):
        words = list(map(_words, side.texts or ()))
        translations = defaultdict(set)
        for sentence, translation in zip(words, map(_words, other.texts or ()), strict=True):
            translations[sentence].add(translation)
        pool = side.take(_first_rows(words))
        problems += _problems(PARAPHRASES_NAME, inputs, config, pool, _sharing(translations.values()))
    return problems


def _problems(
    task: str, inputs: Inputs, config: EvaluationConfig, pool: Texts, sharing: Sequence[Sequence[int]]
) -> list[Problem]:
    """Return the problem whose candidates share something with those of `sharing`; none if none does."""
    rows = [row for row, others in enumerate(sharing) if others]
    if not rows:
        return []
    gold = np.full((len(rows), max(len(sharing[row]) for row in rows)), -1)
    for golds, row in zip(gold, rows, strict=True):
        golds[: len(sharing[row])] = sharing[row]
    settings: dict[str, Setting] = {"split": config.split, "pool_size": len(pool)}
    if inputs.kind != "utterances":
        settings["pair"] = inputs.pair
    return [
        MonolingualProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on=pool.language,
            texts={"query": pool.take(rows), "pool": pool},
            settings=settings,
            rows=np.array(rows),
            gold=gold,
        )
    ]


# --- what texts share -------------------------------------------------------------------------------------


def _first_rows(items: Sequence[Hashable]) -> list[int]:
    return sorted({item: row for row, item in reversed(list(enumerate(items)))}.values())


def _sharing(properties: Iterable[Iterable[Hashable]]) -> list[list[int]]:
    """Return for each item the others that share one of its properties.

    >>> _sharing([["a"], ["a", "b"], ["b"], ["c"]])
    [[1], [0, 2], [1], []]
    """
    owners = defaultdict(list)
    listed = list(map(list, properties))
    for item, names in enumerate(listed):
        for name in names:
            owners[name].append(item)
    return [
        sorted({other for name in of_item for other in owners[name]} - {item}) for item, of_item in enumerate(listed)
    ]


def _words(text: str) -> str:
    """Return the letters and digits of a text, case ignored."""
    return "".join(filter(str.isalnum, text.casefold())) or text


Values = tuple[tuple[str, str], ...]
"""Slot type and text of each value, sorted: their order is the template's."""


def template_and_values(tokens: Sequence[str], tags: Sequence[str]) -> tuple[tuple[str, ...], Values]:
    """Return the words of an utterance with `[type]` for each slot value, and its values; case is ignored.

    >>> template_and_values(["wake", "me", "at", "seven", "am"], ["O", "O", "O", "B-time", "I-time"])
    (('wake', 'me', 'at', '[time]'), (('time', 'seven am'),))
    """
    template, values = [], []
    starts = [row for row, tag in enumerate(tags) if not tag.startswith("I-")]
    for start, end in pairwise([*starts, len(tags)]):
        text = " ".join(tokens[start:end]).casefold()
        if tags[start] == OUTSIDE:
            template.append(text)
        else:
            slot = tags[start].partition("-")[2]
            template.append(f"[{slot}]")
            values.append((slot, text))
    return tuple(template), tuple(sorted(values))


VALUES = Task(
    name=VALUES_NAME,
    scope="language",
    tables=("utterances",),
    problems=value_problems,
    ranked=("residual", "meaning", "sentence"),
)
PARAPHRASES = Task(
    name=PARAPHRASES_NAME,
    scope="pair",
    tables=("sentence_pairs",),
    problems=paraphrase_problems,
    kinds=("bitext", "translations"),
)

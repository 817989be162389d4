"""Tag the slots of sentences: F1 over words with a slot, and over spans that are read strictly or leniently.

TWOSL's protocol (Razumovskaia et al. 2023): `micro_f1` counts words whose full tag (B- or I-, and type) is right.
`span_f1` counts spans of equal type, start and end as xSID's evaluation reads them: only a B- opens a span.
`seqeval_f1` reads spans as seqeval does by default: an I- that continues nothing opens one as well. All metrics are
over all sentences of the split.

`ner` measures named entities in the same way: TWOSL's protocol on MasakhaNER, whose authors (Adelani et al. 2021,
https://doi.org/10.1162/tacl_a_00416) report `seqeval_f1`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.corpora.annotation import OUTSIDE, Slot, tagged_slots
from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.statistics import f1

Tags = Sequence[Sequence[str]]
"""A tag for every word of every sentence."""


@dataclass(frozen=True)
class Agreement:
    """Counts over all sentences."""

    correct: int
    predicted: int
    gold: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 0 to 1; 0 where it would be 0 / 0."""
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0


def token_agreement(gold: Tags, predicted: Tags) -> Agreement:
    """Count words that have a slot (no O)."""
    correct = predicted_count = gold_count = 0
    for gold_tags, predicted_tags in _sentences(gold, predicted):
        for gold_tag, predicted_tag in zip(gold_tags, predicted_tags, strict=True):
            correct += gold_tag != OUTSIDE and gold_tag == predicted_tag
            predicted_count += predicted_tag != OUTSIDE
            gold_count += gold_tag != OUTSIDE
    return Agreement(correct, predicted_count, gold_count)


def span_agreement(gold: Tags, predicted: Tags, *, spans: Literal["lenient", "strict"] = "lenient") -> Agreement:
    """Count slots of equal type, start and end.

    `lenient` reads slots as seqeval does by default: an I- that continues nothing opens a slot. `strict` reads them
    by `opened_slots`.
    """
    read = tagged_slots if spans == "lenient" else opened_slots
    correct = predicted_count = gold_count = 0
    for gold_tags, predicted_tags in _sentences(gold, predicted):
        gold_spans, predicted_spans = set(read(gold_tags)), set(read(predicted_tags))
        correct += len(gold_spans & predicted_spans)
        predicted_count += len(predicted_spans)
        gold_count += len(gold_spans)
    return Agreement(correct, predicted_count, gold_count)


def opened_slots(tags: Sequence[str]) -> list[Slot]:
    """Return spans of tokens that a B- opens and that every following I- continues, of whatever type.

    xSID's `nluEval.py` reads them so, except that here a span that ends one token before the sentence keeps its end.
    """
    slots: list[Slot] = []
    for position, tag in enumerate(tags):
        prefix, _, slot_type = tag.partition("-")
        if prefix == "B":
            slots.append(Slot(slot_type, position, position + 1))
        elif prefix == "I" and slots and slots[-1].end == position:
            slots[-1] = slots[-1]._replace(end=position + 1)
    return slots


def _sentences(gold: Tags, predicted: Tags) -> list[tuple[Sequence[str], Sequence[str]]]:
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} sentences have gold tags and {len(predicted)} predicted ones")
    for index, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True)):
        if len(gold_tags) != len(predicted_tags):
            counts = f"{len(gold_tags)} gold tags and {len(predicted_tags)} predicted ones"
            raise ValueError(f"sentence {index} has {counts}")
    return list(zip(gold, predicted, strict=True))


AGREEMENTS: dict[str, Callable[[Tags, Tags], Agreement]] = {
    "micro_f1": token_agreement,
    "span_f1": partial(span_agreement, spans="strict"),
    "seqeval_f1": partial(span_agreement, spans="lenient"),
}
"""Function that counts agreement, by metric."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotProblem(LabelProblem):
    """Sentences with their gold tags."""

    gold: Sequence[Sequence[str]]

    def score(self, tags: Sequence[Sequence[str]]) -> list[Measurement]:
        """Return the three F1 metrics; sentences are the items of their intervals."""
        counts = {metric: _counts(agreement, self.gold, tags) for metric, agreement in AGREEMENTS.items()}
        return [measured(metric, items, statistic=f1) for metric, items in counts.items()]


def _counts(agreement: Callable[[Tags, Tags], Agreement], gold: Tags, tags: Tags) -> Float[np.ndarray, "n counts"]:
    """Return correct, predicted and gold words or spans of each sentence."""
    counts = [agreement([gold_tags], [predicted]) for gold_tags, predicted in zip(gold, tags, strict=True)]
    return np.array([(count.correct, count.predicted, count.gold) for count in counts], dtype=float)


def problems(inputs: Inputs, config: EvaluationConfig, *, task: str) -> list[LabelProblem]:
    """Return the problem of tagging the utterances of one language, whatever the tags mark; none if all tags are O."""
    (language,) = inputs.languages
    chosen = inputs.tables["utterances", language].filter(pc.field("split") == config.split)
    gold = chosen["slot_tags"].to_pylist()
    if all(tag == OUTSIDE for tags in gold for tag in tags):
        return []
    return [
        SlotProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on=language,
            sentences=chosen["tokens"].to_pylist(),
            gold=gold,
            settings={"split": config.split},
        )
    ]


TASK = Task(
    name="slot_labelling",
    scope="language",
    tables=("utterances",),
    problems=partial(problems, task="slot_labelling"),
    code_version="2",
)
NER = replace(TASK, name="ner", problems=partial(problems, task="ner"), kinds=("entities",), code_version="1")

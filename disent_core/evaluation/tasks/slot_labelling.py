"""Tag the slots of sentences: F1 over words with a slot, and over spans that are read strictly or leniently.

TWOSL's protocol (Razumovskaia et al. 2023): `micro_f1` counts words whose full tag (B- or I-, and type) is right.
`span_f1` counts spans of equal type, start and end as xSID's evaluation reads them: only a B- opens a span.
`seqeval_f1` reads spans as seqeval does by default: an I- that continues nothing opens one as well. All metrics are
over all sentences of the split.

`ner` measures named entities in the same way: TWOSL's protocol on MasakhaNER, whose authors (Adelani et al. 2021,
https://doi.org/10.1162/tacl_a_00416) report `seqeval_f1`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.corpora.annotation import OUTSIDE, Slot, tagged_slots
from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.statistics import f1

Tags = Sequence[Sequence[str]]
"""A tag for every word of every sentence."""
Read = Callable[[Sequence[str]], Iterable[Hashable]]
"""Function from a sentence's tags to what is compared: its words with a slot, or its spans."""


def agreement(gold: Tags, predicted: Tags, read: Read) -> Float[np.ndarray, "sentences 3"]:
    """Count for each sentence what is correct (in gold and predicted), predicted and gold."""
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} sentences have gold tags and {len(predicted)} predicted ones")
    counts = []
    for index, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True)):
        if len(gold_tags) != len(predicted_tags):
            lengths = f"{len(gold_tags)} gold tags and {len(predicted_tags)} predicted ones"
            raise ValueError(f"sentence {index} has {lengths}")
        of_gold, of_predicted = set(read(gold_tags)), set(read(predicted_tags))
        counts.append((len(of_gold & of_predicted), len(of_predicted), len(of_gold)))
    return np.array(counts, dtype=float).reshape(-1, 3)


def tagged_words(tags: Sequence[str]) -> list[tuple[int, str]]:
    """Return place and tag of each word that has a slot (no O)."""
    return [(place, tag) for place, tag in enumerate(tags) if tag != OUTSIDE]


def opened_slots(tags: Sequence[str]) -> list[Slot]:
    """Return the spans of tokens that a B- opens and every following I-, of any type, continues.

    As in xSID's `nluEval.py`, except that here a span that ends one token before the sentence keeps its end.
    """
    slots: list[Slot] = []
    for position, tag in enumerate(tags):
        prefix, _, slot_type = tag.partition("-")
        if prefix == "B":
            slots.append(Slot(slot_type, position, position + 1))
        elif prefix == "I" and slots and slots[-1].end == position:
            slots[-1] = slots[-1]._replace(end=position + 1)
    return slots


COMPARED: Mapping[str, Read] = {"micro_f1": tagged_words, "span_f1": opened_slots, "seqeval_f1": tagged_slots}
"""What is compared, by metric; `tagged_slots` reads an I- that continues nothing as the beginning of a slot."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotProblem(LabelProblem):
    gold: Sequence[Sequence[str]]

    def score(self, tags: Sequence[Sequence[str]]) -> list[Measurement]:
        """Return the three F1 metrics; sentences are the items of their intervals."""
        return [measured(name, agreement(self.gold, tags, read), statistic=f1) for name, read in COMPARED.items()]


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

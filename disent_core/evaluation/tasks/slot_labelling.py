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

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.corpora.annotation import OUTSIDE
from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.statistics import f1
from disent_core.evaluation.metrics.tagging import Agreement, Tags, span_agreement, token_agreement

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

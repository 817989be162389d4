"""Tag the slots of sentences: F1 over words without O, and over spans that are read strictly or leniently.

TWOSL's protocol (Razumovskaia et al. 2023): `micro_f1` counts the words whose tag, B- and I- told apart, is right.
`span_f1` counts spans of equal type, start and end as xSID's evaluation reads them: only a B- opens one.
`seqeval_f1` counts what seqeval does by default, where an I- that continues nothing opens one as well. All are over
all sentences of the split.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.corpora.annotation import OUTSIDE
from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.statistics import f1
from disent_core.evaluation.metrics.tagging import Agreement, Tags, span_agreement, token_agreement

NAME = "slot_labelling"

AGREEMENTS: dict[str, Callable[[Tags, Tags], Agreement]] = {
    "micro_f1": token_agreement,
    "span_f1": partial(span_agreement, spans="strict"),
    "seqeval_f1": partial(span_agreement, spans="lenient"),
}
"""What each metric counts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotProblem(LabelProblem):
    """Sentences with their gold tags."""

    gold: Sequence[Sequence[str]]

    def score(self, tags: Sequence[Sequence[str]]) -> list[Measurement]:
        """The three measures of F1; sentences are the items of their intervals.

        Raises:
            ValueError: if there is not one tag for every word.
        """
        return [
            measured(metric, _counts(agreement, self.gold, tags), statistic=f1)
            for metric, agreement in AGREEMENTS.items()
        ]


def _counts(agreement: Callable[[Tags, Tags], Agreement], gold: Tags, tags: Tags) -> Float[np.ndarray, "n counts"]:
    """What is correct, predicted and gold in each sentence."""
    found = [agreement([own], [guess]) for own, guess in zip(gold, tags, strict=True)]
    return np.array([(each.correct, each.predicted, each.gold) for each in found], dtype=float)


def problems(inputs: Inputs, config: EvaluationConfig) -> list[LabelProblem]:
    """The problem of one language; none where no sentence of the split has a slot."""
    return tag_problems(inputs, config, task=NAME)


def tag_problems(inputs: Inputs, config: EvaluationConfig, *, task: str) -> list[LabelProblem]:
    """The tags of `utterances`, whatever they mark; no problem where none is but O."""
    (language,) = inputs.languages
    utterances: pa.Table = inputs.tables["utterances", language]
    chosen = utterances.filter(pc.field("split") == config.split)
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


TASK = Task(name=NAME, scope="language", tables=("utterances",), problems=problems, code_version="2")

"""Tag the slots of sentences: micro-F1 over words without O, and over strict spans.

TWOSL's protocol (Razumovskaia et al. 2023): `micro_f1` counts the words whose tag, B- and I- told
apart, is right. `span_f1` counts spans of equal type, start and end. Both are over all test sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.corpora.annotation import OUTSIDE
from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Measurement, Task, measured
from disent_core.slots.f1 import Agreement, span_agreement, token_agreement

NAME = "slot_labelling"


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotProblem(LabelProblem):
    """Sentences with their gold tags."""

    gold: Sequence[Sequence[str]]

    def score(self, tags: Sequence[Sequence[str]]) -> list[Measurement]:
        """`micro_f1` and `span_f1`; sentences are the items of their intervals."""
        pairs = [([own], [guess]) for own, guess in zip(self.gold, tags, strict=True)]
        return [
            measured("micro_f1", _counts([token_agreement(*pair) for pair in pairs]), statistic=f1_of_counts),
            measured("span_f1", _counts([span_agreement(*pair) for pair in pairs]), statistic=f1_of_counts),
        ]


def f1_of_counts(samples: Float[np.ndarray, "samples n counts"]) -> Float[np.ndarray, " samples"]:
    """F1 of samples of sentences, from what is correct, predicted and gold in each; 0 where nothing is."""
    correct, predicted, gold = np.moveaxis(samples.sum(axis=1), -1, 0)
    return 2 * correct / np.maximum(predicted + gold, 1)


def _counts(agreements: Sequence[Agreement]) -> Float[np.ndarray, "n counts"]:
    return np.array([(each.correct, each.predicted, each.gold) for each in agreements], dtype=float)


def problems(inputs: Inputs, config: EvaluationConfig) -> list[LabelProblem]:
    """The problem of one language; none where no sentence of the split has a slot."""
    (language,) = inputs.languages
    utterances: pa.Table = inputs.tables["utterances", language]
    chosen = utterances.filter(pc.field("split") == config.split)
    gold = chosen["slot_tags"].to_pylist()
    if all(tag == OUTSIDE for tags in gold for tag in tags):
        return []
    return [
        SlotProblem(
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on=language,
            sentences=chosen["tokens"].to_pylist(),
            gold=gold,
            settings={"split": config.split},
        )
    ]


TASK = Task(name=NAME, scope="language", tables=("utterances",), problems=problems)

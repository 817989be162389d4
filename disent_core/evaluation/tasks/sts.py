"""Correlate the cosine of two sentences with human scores: of their similarity, or of a translation's quality.

`sts` is SemEval-2017 task 1 (Cer et al. 2017, https://aclanthology.org/S17-2001): pairs of sentences of one language
or of two, with gold scores of 0 to 5. DREAM reports Pearson's correlation, ORACLE Spearman's. All embeddings are
measured: a correlation of the language embedding is leakage. An embedding whose cosines are all equal has correlation
0.

`qe` estimates the quality of machine translations. The scores are WMT20's direct assessments (Specia et al. 2020,
https://aclanthology.org/2020.wmt-1.79), on which DREAM is evaluated. The official gold score `z_mean` standardises them
by judge; `mean` is the mean raw score.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.evaluation.contract import Embedded, EvaluationConfig, Inputs, LateInteraction, Problem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import unit_rows
from disent_core.evaluation.metrics.statistics import pearson, spearman
from disent_core.evaluation.tasks.parallel import pair_texts, sentence_pairs

NAME, QE_NAME = "sts", "qe"
QE_GOLD = {"z_mean": "score", "mean": "mean_score"}
"""Column of `sentence_pairs` by name of the gold score of quality estimation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CorrelationProblem(Problem):
    """Texts by role `source` and `target`, row by row, with the `gold` score of each pair."""

    takes_late_interaction: ClassVar[bool] = True

    gold: Float[np.ndarray, " pairs"]

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return the correlations of similarity and gold; pairs of both are the items."""
        items = np.stack([paired_similarity(matrices["source"], matrices["target"]), self.gold], axis=1)
        return [
            measured("pearson", items, statistic=pearson),
            measured("spearman", items, statistic=spearman),
        ]


def paired_similarity(source: Embedded, target: Embedded) -> Float[np.ndarray, " pairs"]:
    """Return the cosine of each source row with its target row; for a late interaction its own similarity."""
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        left, right = (unit_rows(side, name).astype(float) for side, name in ((source, "source"), (target, "target")))
        return np.einsum("nd,nd->n", left, right)
    if isinstance(source, LateInteraction) and type(source) is type(target):
        return source.paired(target).astype(float)
    raise ValueError(f"{type(source).__name__} and {type(target).__name__} can't be compared")


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of one pair; none if fewer than two pairs have a gold score."""
    return correlation_problems(inputs, config, task=NAME, column="score")


def correlation_problems(
    inputs: Inputs, config: EvaluationConfig, *, task: str, column: str, gold: str | None = None
) -> list[Problem]:
    """Return the problem of correlation with a column of `sentence_pairs`; rows without a value are left out.

    Args:
        inputs: of one pair.
        config: whose split is read.
        task: its name.
        column: the gold score.
        gold: name of the gold score in the settings, if a task has several.
    """
    pairs = sentence_pairs(inputs, config.split)
    pairs = pairs.filter(pc.field(column).is_valid())
    if pairs.num_rows < 2:
        return []
    source, target = pair_texts(inputs, pairs)
    return [
        CorrelationProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on=inputs.pair,
            texts={"source": source, "target": target},
            settings={"split": config.split, **({"gold": gold} if gold else {})},
            gold=pairs[column].to_numpy().astype(float),
        )
    ]


def quality_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each gold score of translation quality that the pairs have."""
    return [
        problem
        for gold, column in QE_GOLD.items()
        for problem in correlation_problems(inputs, config, task=QE_NAME, column=column, gold=gold)
    ]


TASK = Task(name=NAME, scope="pair", tables=("sentence_pairs",), problems=problems, kinds=("similarity",))
QE = Task(name=QE_NAME, scope="pair", tables=("sentence_pairs",), problems=quality_problems, kinds=("quality",))

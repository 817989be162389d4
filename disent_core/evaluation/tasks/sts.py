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
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float

from disent_core.evaluation.contract import Embedded, EvaluationConfig, Inputs, LateInteraction, Problem, Task
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.ranking import unit_rows
from disent_core.evaluation.metrics.statistics import pearson, spearman
from disent_core.evaluation.tasks.parallel import pair_texts, sentence_pairs


@dataclass(frozen=True, kw_only=True, eq=False)
class CorrelationProblem(Problem):
    """Texts by role `source` and `target`, row by row, with the `gold` score of each pair."""

    takes_late_interaction: ClassVar[bool] = True

    gold: Float[np.ndarray, " pairs"]

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return the correlations of similarity and gold; pairs of both are the items."""
        items = np.stack([paired_similarity(matrices["source"], matrices["target"]), self.gold], axis=1)
        return [measured("pearson", items, statistic=pearson), measured("spearman", items, statistic=spearman)]


def paired_similarity(source: Embedded, target: Embedded) -> Float[np.ndarray, " pairs"]:
    """Return the cosine of each source row with its target row; for a late interaction its own similarity."""
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        left, right = (unit_rows(side, name).astype(float) for side, name in ((source, "source"), (target, "target")))
        return np.einsum("nd,nd->n", left, right)
    if isinstance(source, LateInteraction) and type(source) is type(target):
        return source.paired(target).astype(float)
    raise ValueError(f"{type(source).__name__} and {type(target).__name__} can't be compared")


def correlation_problems(
    inputs: Inputs, config: EvaluationConfig, *, task: str, golds: Mapping[str | None, str]
) -> list[Problem]:
    """Return the problem of correlation with each gold score that at least two pairs of sentences have.

    `golds` has the column of `sentence_pairs` by the name of the gold score in the settings, None if there is only one.
    """
    problems: list[Problem] = []
    for gold, column in golds.items():
        pairs = sentence_pairs(inputs, config.split).filter(pc.field(column).is_valid())
        if len(pairs) < 2:
            continue
        source, target = pair_texts(inputs, pairs)
        problem = CorrelationProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on=inputs.pair,
            texts={"source": source, "target": target},
            settings={"split": config.split, **({"gold": gold} if gold else {})},
            gold=pairs[column].to_numpy().astype(float),
        )
        problems.append(problem)
    return problems


TASK = Task(
    name="sts",
    scope="pair",
    tables=("sentence_pairs",),
    problems=partial(correlation_problems, task="sts", golds={None: "score"}),
    kinds=("similarity",),
)
QE = replace(
    TASK,
    name="qe",
    problems=partial(correlation_problems, task="qe", golds={"z_mean": "score", "mean": "mean_score"}),
    kinds=("quality",),
)

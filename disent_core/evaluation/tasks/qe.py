"""Estimate translation quality: correlate the cosine of a sentence and its machine translation with judgements.

The judgements are WMT20's direct assessments (Specia et al. 2020, https://aclanthology.org/2020.wmt-1.79), on which
DREAM is evaluated. The official gold score `z_mean` standardises them by judge; `mean` is the mean raw score.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.tasks.sts import correlation_problems

NAME = "qe"
GOLD = {"z_mean": "score", "mean": "mean_score"}
"""Column of `sentence_pairs` by name of the gold score."""


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each gold score that the pairs have."""
    return [
        problem
        for gold, column in GOLD.items()
        for problem in correlation_problems(inputs, config, task=NAME, column=column, gold=gold)
    ]


TASK = Task(name=NAME, scope="pair", tables=("sentence_pairs",), problems=problems, kinds=("quality",))

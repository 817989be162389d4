"""Retrieve utterances with the same template where each source has several gold targets (FMDA: 5), by MAP.

Candidates are the targets of all sources that take part.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.tasks.template_retrieval import template_problems

NAME = "multi_target_template_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of one language; none if no source of the split has enough targets."""
    return template_problems(inputs, config, task=NAME, targets=config.multi_targets, metric="map")


TASK = Task(
    name=NAME,
    scope="language",
    tables=("template_pairs",),
    problems=problems,
    ranked=("template", "meaning", "sentence"),
)

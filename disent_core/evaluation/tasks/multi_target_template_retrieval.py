"""Template retrieval with several targets a source (FMDA: 5), all of them gold; mean average precision.

Candidates are all targets of all sources that take part.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.tasks.template_retrieval import template_problems

NAME = "multi_target_template_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """The problem of one language; none where no source of the split has targets enough."""
    return template_problems(inputs, config, task=NAME, targets=config.multi_targets, metric="map")


TASK = Task(
    name=NAME,
    scope="language",
    tables=("template_pairs",),
    problems=problems,
    ranked=("template", "meaning", "sentence"),
)

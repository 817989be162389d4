"""Tag the named entities of sentences, measured as slots are: TWOSL's protocol on MasakhaNER.

Adelani et al. 2021, https://doi.org/10.1162/tacl_a_00416, whose own figure is `seqeval_f1`.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Task
from disent_core.evaluation.tasks.slot_labelling import tag_problems

NAME = "ner"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[LabelProblem]:
    """The problem of one language; none where no sentence of the split has an entity."""
    return tag_problems(inputs, config, task=NAME)


TASK = Task(name=NAME, scope="language", tables=("utterances",), problems=problems, kinds=("entities",))

"""Tag named entities in sentences, with the metrics of slot labelling: TWOSL's protocol on MasakhaNER.

Adelani et al. 2021, https://doi.org/10.1162/tacl_a_00416, report `seqeval_f1`.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, LabelProblem, Task
from disent_core.evaluation.tasks.slot_labelling import tag_problems

NAME = "ner"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[LabelProblem]:
    """Return the problem of one language; none if no sentence of the split has an entity."""
    return tag_problems(inputs, config, task=NAME)


TASK = Task(name=NAME, scope="language", tables=("utterances",), problems=problems, kinds=("entities",))

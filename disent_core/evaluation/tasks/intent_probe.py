"""The intent of an utterance, as a linear probe reads it off an embedding.

The meaning embedding should know it; what the language embedding knows of it is meaning that has leaked.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.metrics.linear_probe import ProbeProblem, probe_settings, probed_splits
from disent_core.evaluation.tasks.parallel import utterance_texts

NAME = "intent_probe"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """The problem of a language; none where fewer than two intents are there to learn, or none to be measured."""
    (language,) = inputs.languages
    utterances: pa.Table = inputs.tables["utterances", language]
    known = utterances.filter(pc.field("intent").is_valid())
    parts = {part: known.filter(pc.field("split") == split) for part, split in probed_splits(config).items()}
    if len(set(parts["train"]["intent"].to_pylist())) < 2 or not len(parts["test"]):
        return []
    return [
        ProbeProblem(
            task=NAME,
            dataset=inputs.corpus,
            evaluated_on=language,
            texts={f"{part} {language}": utterance_texts(language, table) for part, table in parts.items()},
            settings=probe_settings(config),
            labels={f"{part} {language}": np.asarray(table["intent"].to_pylist()) for part, table in parts.items()},
        )
    ]


TASK = Task(name=NAME, scope="language", tables=("utterances",), problems=problems)

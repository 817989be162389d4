"""Predict the intent of an utterance from an embedding with a linear probe.

The meaning embedding should encode the intent. Where the language embedding does, meaning has leaked into it.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.metrics.linear_probe import ProbeProblem, probe_settings, probed_splits
from disent_core.evaluation.tasks.parallel import utterance_texts

NAME = "intent_probe"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a language; none if fewer than two intents are to train on, or no text is to test."""
    (language,) = inputs.languages
    utterances: pa.Table = inputs.tables["utterances", language]
    with_intent = utterances.filter(pc.field("intent").is_valid())
    parts = {part: with_intent.filter(pc.field("split") == split) for part, split in probed_splits(config).items()}
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

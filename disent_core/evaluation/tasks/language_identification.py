"""Predict the language of a text from the language embedding with a linear probe: it should separate the languages.

`language_leakage` is the same probe on the embeddings that should not.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.metrics.linear_probe import ProbeProblem, probe_settings, probed_splits
from disent_core.evaluation.tasks.parallel import pair_texts, sentence_pairs, utterance_texts

NAME = "language_identification"
RANKED = ("language", "sentence")


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a pair of two languages; none if one has no texts to train on or to test."""
    return language_problems(inputs, config, task=NAME, embeddings=RANKED)


def language_problems(
    inputs: Inputs, config: EvaluationConfig, *, task: str, embeddings: tuple[str, ...]
) -> list[Problem]:
    """Return the problem of a pair of two languages, for these embeddings; none if a language has no texts for it."""
    sides = {part: _sides(inputs, split) for part, split in probed_splits(config).items()}
    if len(set(inputs.languages)) < 2 or not all(len(texts) for both in sides.values() for texts in both):
        return []
    roles = {f"{part} {texts.language}": texts for part, both in sides.items() for texts in both}
    return [
        ProbeProblem(
            task=task,
            dataset=inputs.corpus,
            evaluated_on="-".join(inputs.languages),
            texts=roles,
            settings=probe_settings(config),
            embeddings=embeddings,
            labels={role: np.full(len(texts), texts.language) for role, texts in roles.items()},
        )
    ]


def _sides(inputs: Inputs, split: str) -> Sequence[Texts]:
    """Texts of the split, by language."""
    if inputs.kind == "bitext":
        return pair_texts(inputs, sentence_pairs(inputs, split))
    tables = [inputs.tables["utterances", language] for language in inputs.languages]
    chosen = [table.filter(pc.field("split") == split) for table in tables]
    return [utterance_texts(language, table) for language, table in zip(inputs.languages, chosen, strict=True)]


TASK = Task(
    name=NAME,
    scope="pair",
    tables=("utterances", "sentence_pairs"),
    problems=problems,
    kinds=("utterances", "bitext"),
    ranked=RANKED,
    code_version="2",
)

"""Predict the language of a text with a linear probe.

`language_identification` does so from the language embedding, which should separate the languages. `language_leakage`
is the same probe on what should not tell the language, so lower is better: a meaning, template or residual that is free
of language is what the papers call language-agnostic. Without any trace of the language the probe is right as often as
chance: 0.5 for two languages with equally many texts.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.metrics.linear_probe import ProbeProblem, probe_settings, probed_splits
from disent_core.evaluation.tasks.parallel import pair_texts, sentence_pairs, utterance_texts

NAME, LEAKAGE_NAME = "language_identification", "language_leakage"
RANKED = ("language", "sentence")
LEAKAGE_RANKED = ("meaning", "template", "residual", "sentence")


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a pair of two languages; none if one has no texts to train on or to test."""
    return language_problems(inputs, config, task=NAME, embeddings=RANKED)


def leakage_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the same problem for the embeddings that should not tell the language."""
    return language_problems(inputs, config, task=LEAKAGE_NAME, embeddings=LEAKAGE_RANKED)


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
    """Return texts of the split, by language."""
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
LEAKAGE = replace(
    TASK, name=LEAKAGE_NAME, problems=leakage_problems, ranked=LEAKAGE_RANKED, lower_is_better=True, code_version="1"
)

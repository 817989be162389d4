"""Predict the language of a text from what should not tell it, with a linear probe: lower is better.

A meaning, template or residual that is free of language is what the papers call language-agnostic. The probe is that of
`language_identification`. Without any trace of the language it is right as often as chance: 0.5 for two languages with
equally many texts.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.tasks.language_identification import language_problems

NAME = "language_leakage"
RANKED = ("meaning", "template", "residual", "sentence")


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a pair of two languages; none if one has no texts to train on or to test."""
    return language_problems(inputs, config, task=NAME, embeddings=RANKED)


TASK = Task(
    name=NAME,
    scope="pair",
    tables=("utterances", "sentence_pairs"),
    problems=problems,
    kinds=("utterances", "bitext"),
    ranked=RANKED,
    lower_is_better=True,
)

"""Predict the intent or the language of a text from an embedding.

* `intent_probe`: the meaning embedding should encode the intent. Where the language embedding does, meaning has leaked
  into it.
* `language_identification` predicts the language from the language embedding, which should separate the languages.
* `language_leakage` is the same probe on what should not tell the language, so lower is better: a meaning, template or
  residual that is free of language is what the papers call language-agnostic. Without any trace of the language the
  probe is right as often as chance: 0.5 for two languages with equally many texts. `language_leakage_knn` and
  `language_leakage_mlp` read the language from the same embeddings by neighbours and with a network: what a linear
  map no longer finds can still be there (`metrics.probes`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.metrics.probes import Probe, ProbeProblem, probe_settings, probed_splits
from disent_core.evaluation.tasks.parallel import pair_texts, sentence_pairs, split_utterances, utterance_texts


def intent_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of a language; none if fewer than two intents are to train on, or no text is to test."""
    (language,) = inputs.languages
    parts = {
        f"{part} {language}": split_utterances(inputs, split, with_intent=True)[0]
        for part, split in probed_splits(config).items()
    }
    labels = {role: np.asarray(utterances["intent"].to_pylist()) for role, utterances in parts.items()}
    if len(set(labels[f"train {language}"].tolist())) < 2 or not len(labels[f"test {language}"]):
        return []
    return [
        ProbeProblem(
            task="intent_probe",
            dataset=inputs.corpus,
            evaluated_on=language,
            texts={role: utterance_texts(language, utterances) for role, utterances in parts.items()},
            settings=probe_settings(config),
            labels=labels,
        )
    ]


def language_problems(
    inputs: Inputs, config: EvaluationConfig, *, task: str, embeddings: tuple[str, ...], probe: Probe = "ridge"
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
            settings=probe_settings(config, probe),
            embeddings=embeddings,
            probe=probe,
            labels={role: np.full(len(texts), texts.language) for role, texts in roles.items()},
        )
    ]


def _sides(inputs: Inputs, split: str) -> Sequence[Texts]:
    """Return texts of the split, by language."""
    if inputs.kind == "bitext":
        return pair_texts(inputs, sentence_pairs(inputs, split))
    return [*map(utterance_texts, inputs.languages, split_utterances(inputs, split))]


RANKED, LEAKAGE_RANKED = ("language", "sentence"), ("meaning", "template", "residual", "sentence")
INTENT = Task(name="intent_probe", scope="language", tables=("utterances",), problems=intent_problems)
IDENTIFICATION = Task(
    name="language_identification",
    scope="pair",
    tables=("utterances", "sentence_pairs"),
    problems=partial(language_problems, task="language_identification", embeddings=RANKED),
    kinds=("utterances", "bitext"),
    ranked=RANKED,
    code_version="2",
)
LEAKAGE = replace(
    IDENTIFICATION,
    name="language_leakage",
    problems=partial(language_problems, task="language_leakage", embeddings=LEAKAGE_RANKED),
    ranked=LEAKAGE_RANKED,
    lower_is_better=True,
    code_version="1",
)
LEAKAGE_KNN, LEAKAGE_MLP = (
    replace(
        LEAKAGE,
        name=f"language_leakage_{probe}",
        problems=partial(language_problems, task=f"language_leakage_{probe}", embeddings=LEAKAGE_RANKED, probe=probe),
    )
    for probe in ("knn", "mlp")
)

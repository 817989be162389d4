"""Retrieve the translation in a test set such as LASER's Tatoeba: up to 1,000 sentences of X and their translations.

Artetxe and Schwenk 2019, https://doi.org/10.1162/tacl_a_00288. Accuracy at 1 by strict id in both directions; `de-en`
has queries in de and the pool in en. The size of the pool differs between languages and is among the settings.
"""

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.tasks.parallel import both_directions, pair_texts, sentence_pairs

NAME = "tatoeba_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if the split is empty."""
    pairs = sentence_pairs(inputs, config.split)
    return both_directions(pair_texts(inputs, pairs), pairs["pair_id"], config, task=NAME, dataset=inputs.corpus)


TASK = Task(name=NAME, scope="pair", tables=("sentence_pairs",), problems=problems, kinds=("translations",))

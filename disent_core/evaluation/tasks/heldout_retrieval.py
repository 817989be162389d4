"""Retrieve the translation among the held-out pairs of the bitext that heads train on.

This is ORACLE's table 8. The pairs are those of the split `test`, whatever the split of the other tasks, because `dev`
has chosen the epoch. Accuracy at 1 by strict id in both directions; `en-de` has queries in en and the pool in de.
"""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.tasks.parallel import both_directions, pair_texts, sentence_pairs

NAME = "heldout_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if it has no test pairs.

    Raises:
        ConfigError: if faiss is to search, and is not installed.
    """
    if config.heldout_search != "exact" and find_spec("faiss") is None:
        raise ConfigError(f"heldout_search = {config.heldout_search!r} needs faiss: pip install 'disent[faiss]'")
    pairs, held_out = sentence_pairs(inputs, "test"), replace(config, split="test")
    sides, training = pair_texts(inputs, pairs), partial(_training, inputs) if inputs.trains else None
    return both_directions(
        sides,
        pairs["pair_id"],
        held_out,
        task=NAME,
        dataset=inputs.corpus,
        training=training,
        search=config.heldout_search,
    )


def _training(inputs: Inputs) -> tuple[Texts, Texts]:
    return pair_texts(inputs, sentence_pairs(inputs, "train"))


TASK = Task(name=NAME, scope="pair", tables=("sentence_pairs",), problems=problems, kinds=("bitext",))

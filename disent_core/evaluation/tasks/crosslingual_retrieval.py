"""Retrieve the translation: queries are the utterances of one language, candidates those of the other.

FMDA's protocol on MASSIVE: 2,974 test utterances of X, all 2,974 of Y, the same id is gold, accuracy at 1. Both
directions are scored; `en-de` has queries in en and the pool in de. If the languages share only some ids, these are
queries and candidates; if equal ids are not translations, there is no problem.
"""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.tasks.parallel import both_directions, same_order, utterance_texts

NAME = "crosslingual_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if the languages share no utterance of the split.

    Raises:
        AlignmentError: if an id occurs twice, or one language of a parallel corpus lacks an utterance.
    """
    where = f"{inputs.corpus} {inputs.pair} {config.split}"
    chosen = [_of_split(inputs.tables["utterances", language], config.split) for language in inputs.languages]
    tables = same_order(chosen, where, inputs.parallel)
    left, right = map(utterance_texts, inputs.languages, tables)
    ids, training = tables[0]["utterance_id"], partial(_training, inputs)
    return both_directions((left, right), ids, config, task=NAME, dataset=inputs.corpus, training=training)


def _training(inputs: Inputs) -> tuple[Texts, Texts]:
    """Training texts of both languages."""
    tables = (_of_split(inputs.tables["utterances", language], "train") for language in inputs.languages)
    left, right = map(utterance_texts, inputs.languages, tables)
    return left, right


def _of_split(utterances: pa.Table, split: str) -> pa.Table:
    chosen = utterances.select(["utterance_id", "split", "text_key", "text"])
    return chosen.filter(pc.field("split") == split)


TASK = Task(name=NAME, scope="pair", tables=("utterances",), problems=problems)

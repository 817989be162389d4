"""Find the translation: queries are the utterances of one language, candidates all those of the other.

FMDA's protocol on MASSIVE: 2,974 test utterances of X, all 2,974 of Y, gold is the same id, accuracy at 1.
Both directions are scored; `en-de` reads query en, pool de. Where the languages share some ids only, those are
queries and candidates; where ids never tell translations there is no problem.
"""

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task
from disent_core.evaluation.tasks.parallel import both_directions, same_order, utterance_texts

NAME = "crosslingual_retrieval"


def problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """One problem for each direction of the pair; none where the languages share no utterance of the split.

    Raises:
        AlignmentError: if an id is there twice, or an utterance of a parallel corpus misses in one language.
    """
    where = f"{inputs.corpus} {inputs.pair} {config.split}"
    chosen = [_of_split(inputs.tables["utterances", language], config.split) for language in inputs.languages]
    tables = same_order(chosen, where, inputs.parallel)
    left, right = map(utterance_texts, inputs.languages, tables)
    return both_directions((left, right), tables[0]["utterance_id"], config, task=NAME, dataset=inputs.corpus)


def _of_split(utterances: pa.Table, split: str) -> pa.Table:
    chosen = utterances.select(["utterance_id", "split", "text_key", "text"])
    return chosen.filter(pc.field("split") == split)


TASK = Task(name=NAME, scope="pair", tables=("utterances",), problems=problems)

"""Retrieve the translation: queries are the texts of one language, candidates those of the other; accuracy at 1.

Both directions are scored: `en-de` has queries in en and the pool in de. The tasks differ in where the pairs are from:

* `crosslingual_retrieval`: utterances with equal ids. FMDA's protocol on MASSIVE has 2,974 test utterances of X and all
  2,974 of Y. If the languages share only some ids, these are queries and candidates; if equal ids are not translations,
  there is no problem.
* `tatoeba_retrieval`: a test set such as LASER's Tatoeba (Artetxe and Schwenk 2019,
  https://doi.org/10.1162/tacl_a_00288), up to 1,000 sentences of X and their translations, by strict id. The size of
  the pool differs between languages and is among the settings.
* `heldout_retrieval`: the held-out pairs of the bitext that heads train on, ORACLE's table 8, by strict id. They are
  those of the split `test`, whatever the split of the other tasks, because `dev` has chosen the epoch.
"""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, Task, Texts
from disent_core.evaluation.tasks.parallel import (
    both_directions,
    pair_texts,
    same_order,
    sentence_pairs,
    utterance_texts,
)

CROSSLINGUAL_NAME, TATOEBA_NAME, HELDOUT_NAME = "crosslingual_retrieval", "tatoeba_retrieval", "heldout_retrieval"


def crosslingual_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if the languages share no utterance of the split."""
    where = f"{inputs.corpus} {inputs.pair} {config.split}"
    chosen = [_of_split(inputs.tables["utterances", language], config.split) for language in inputs.languages]
    tables = same_order(chosen, where, inputs.parallel)
    left, right = map(utterance_texts, inputs.languages, tables)
    ids, training = tables[0]["utterance_id"], partial(_training_utterances, inputs)
    return both_directions((left, right), ids, config, task=CROSSLINGUAL_NAME, dataset=inputs.corpus, training=training)


def _training_utterances(inputs: Inputs) -> tuple[Texts, Texts]:
    """Return training texts of both languages."""
    tables = (_of_split(inputs.tables["utterances", language], "train") for language in inputs.languages)
    left, right = map(utterance_texts, inputs.languages, tables)
    return left, right


def _of_split(utterances: pa.Table, split: str) -> pa.Table:
    chosen = utterances.select(["utterance_id", "split", "text_key", "text"])
    return chosen.filter(pc.field("split") == split)


def tatoeba_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if the split is empty."""
    pairs = sentence_pairs(inputs, config.split)
    sides = pair_texts(inputs, pairs)
    return both_directions(sides, pairs["pair_id"], config, task=TATOEBA_NAME, dataset=inputs.corpus)


def heldout_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if it has no test pairs."""
    if config.heldout_search != "exact" and find_spec("faiss") is None:
        raise ConfigError(f"heldout_search = {config.heldout_search!r} needs faiss: pip install 'disent[faiss]'")
    pairs, held_out = sentence_pairs(inputs, "test"), replace(config, split="test")
    sides, training = pair_texts(inputs, pairs), partial(_training_pairs, inputs) if inputs.trains else None
    return both_directions(
        sides,
        pairs["pair_id"],
        held_out,
        task=HELDOUT_NAME,
        dataset=inputs.corpus,
        training=training,
        search=config.heldout_search,
    )


def _training_pairs(inputs: Inputs) -> tuple[Texts, Texts]:
    return pair_texts(inputs, sentence_pairs(inputs, "train"))


CROSSLINGUAL = Task(name=CROSSLINGUAL_NAME, scope="pair", tables=("utterances",), problems=crosslingual_problems)
TATOEBA = Task(
    name=TATOEBA_NAME,
    scope="pair",
    tables=("sentence_pairs",),
    problems=tatoeba_problems,
    kinds=("translations",),
)
HELDOUT = replace(TATOEBA, name=HELDOUT_NAME, problems=heldout_problems, kinds=("bitext",))

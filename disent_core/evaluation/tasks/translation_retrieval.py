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

`code_switched_retrieval` is ORACLE's: queries are code-switched sentences, some of whose words are in another language,
candidates are the originals of all of them, by strict id. `en-de` means that originals are en and the other language is
de. The setting `switched` is the language of the sentence whose words are replaced (`code_switching.replace`),
`replaced_share` the mean share of replaced words in a sentence.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, SearchBackend, Task, Texts
from disent_core.evaluation.tasks.parallel import (
    pair_texts,
    same_order,
    sentence_pairs,
    split_utterances,
    utterance_texts,
)
from disent_core.evaluation.tasks.retrieval_problem import Pool, retrieval_problem
from disent_core.storage.schemas import SCHEMAS

if TYPE_CHECKING:
    import polars as pl


def crosslingual_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if the languages share no utterance of the split."""
    where = f"{inputs.corpus} {inputs.pair} {config.split}"
    tables = same_order(split_utterances(inputs, config.split), where, inputs.parallel)

    def training() -> tuple[Texts, Texts]:
        left, right = map(utterance_texts, inputs.languages, split_utterances(inputs, "train"))
        return left, right

    left, right = map(utterance_texts, inputs.languages, tables)
    ids = tables[0]["utterance_id"]
    return _both_directions("crosslingual_retrieval", inputs, (left, right), ids, config, training=training)


def tatoeba_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if the split is empty."""
    pairs = sentence_pairs(inputs, config.split)
    texts = pair_texts(inputs, pairs)
    return _both_directions("tatoeba_retrieval", inputs, texts, pairs["pair_id"], config)


def heldout_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return one problem for each direction of the pair; none if it has no test pairs."""
    if config.heldout_search != "exact" and find_spec("faiss") is None:
        remedy = "pip install 'disent-embeddings[faiss]'"
        raise ConfigError(f"heldout_search = {config.heldout_search!r} needs faiss: {remedy}")
    pairs = sentence_pairs(inputs, "test")
    return _both_directions(
        "heldout_retrieval",
        inputs,
        pair_texts(inputs, pairs),
        pairs["pair_id"],
        replace(config, split="test"),
        training=lambda: pair_texts(inputs, sentence_pairs(inputs, "train")),
        search=config.heldout_search,
    )


def _both_directions(
    task: str,
    inputs: Inputs,
    sides: tuple[Texts, Texts],
    ids: pa.ChunkedArray,
    config: EvaluationConfig,
    *,
    training: Callable[[], tuple[Texts, Texts]] | None = None,
    search: SearchBackend = "exact",
) -> list[Problem]:
    """Return retrieval problems for each direction, where row i of both sides is a translation; none without rows.

    Each direction has a problem for each correction in `config.hubness`. `train_bias` asks `training` for the texts of
    both sides that are the banks; without any on the query's side there is no such problem.
    """
    if not len(ids):
        return []
    names, gold = ids.combine_chunks(), np.arange(len(ids))[:, None]
    banks = training() if training and "train_bias" in config.hubness else (None, None)
    return [
        retrieval_problem(
            queries,
            names,
            Pool(texts=candidates, ids=names, gold=gold),
            config,
            task=task,
            dataset=inputs.corpus,
            evaluated_on=f"{queries.language}-{candidates.language}",
            hubness=hubness,
            bank=bank if hubness == "train_bias" else None,
            search=search,
        )
        for (queries, bank), (candidates, _) in permutations(zip(sides, banks, strict=True))
        for hubness in config.hubness
        if hubness != "train_bias" or bank
    ]


CROSSLINGUAL = Task(name="crosslingual_retrieval", scope="pair", tables=("utterances",), problems=crosslingual_problems)
TATOEBA = Task(
    name="tatoeba_retrieval",
    scope="pair",
    tables=("sentence_pairs",),
    problems=tatoeba_problems,
    kinds=("translations",),
)
HELDOUT = replace(TATOEBA, name="heldout_retrieval", problems=heldout_problems, kinds=("bitext",))


# --- code-switched queries --------------------------------------------------------------------------------


def code_switched_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problem of each switched language of a pair; pairs without a word list have no table."""
    import polars as pl

    table = "code_switched_pairs"
    pairs = inputs.tables.get((table, inputs.pair), SCHEMAS[table].empty_table())
    chosen = pl.DataFrame(pairs.filter(pc.field("split") == config.split))
    parts = chosen.partition_by("switched_language", "original_language", as_dict=True)
    return [
        _code_switched_problem(inputs, config, switched, original, rows) for (switched, original), rows in parts.items()
    ]


def _code_switched_problem(
    inputs: Inputs, config: EvaluationConfig, switched: str, original: str, pairs: "pl.DataFrame"
) -> Problem:
    """Return the problem of the sentences of one switched language and one original language."""
    (foreign,) = {*inputs.languages} - {original}
    ids = pairs["pair_id"].to_arrow()
    originals = Texts.of(original, pairs["original"].to_list())
    replaced = pairs["replaced_words"].list.len().to_numpy() / pairs["words"].to_numpy()
    return retrieval_problem(
        Texts.of(switched, pairs["switched"].to_list()),
        ids,
        Pool(texts=originals, ids=ids, gold=np.arange(len(ids))[:, None]),
        config,
        task="code_switched_retrieval",
        dataset=inputs.corpus,
        evaluated_on=f"{original}-{foreign}",
        settings={"switched": switched, "replaced_share": round(float(replaced.mean()), 4)},
    )


CODE_SWITCHED = Task(
    name="code_switched_retrieval",
    scope="pair",
    tables=("code_switched_pairs",),
    problems=code_switched_problems,
    kinds=("translations", "bitext"),
)

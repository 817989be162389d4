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

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import permutations

import numpy as np
import pyarrow.compute as pc

from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig, Inputs, Problem, SearchBackend, Task, Texts
from disent_core.evaluation.tasks.parallel import all_texts, parallel_texts
from disent_core.evaluation.tasks.retrieval_problem import Pool, retrieval_problem
from disent_core.storage.schemas import SCHEMAS


def problems(
    inputs: Inputs, config: EvaluationConfig, *, task: str, has_banks: bool = False, search: SearchBackend = "exact"
) -> list[Problem]:
    """Return retrieval problems for each direction of the pair; none if the split has no translations.

    Each direction has a problem for each correction in `config.hubness`. Training texts of both sides, if the task has
    them (`has_banks`), are the banks of `train_bias`; without any on the query's side there is no such problem.
    """
    ids, sides = parallel_texts(inputs, config.split)
    if not len(ids):
        return []
    names, gold = ids.combine_chunks(), np.arange(len(ids))[:, None]
    banks = all_texts(inputs, "train") if has_banks and "train_bias" in config.hubness else (None, None)
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


def heldout_problems(inputs: Inputs, config: EvaluationConfig) -> list[Problem]:
    """Return the problems of the split `test`, whatever the split of the other tasks."""
    if config.heldout_search != "exact" and find_spec("faiss") is None:
        remedy = "pip install 'disent-embeddings[faiss]'"
        raise ConfigError(f"heldout_search = {config.heldout_search!r} needs faiss: {remedy}")
    of_test, search = replace(config, split="test"), config.heldout_search
    return problems(inputs, of_test, task="heldout_retrieval", has_banks=True, search=search)


CROSSLINGUAL = Task(
    name="crosslingual_retrieval",
    scope="pair",
    tables=("utterances",),
    problems=partial(problems, task="crosslingual_retrieval", has_banks=True),
)
TATOEBA = Task(
    name="tatoeba_retrieval",
    scope="pair",
    tables=("sentence_pairs",),
    problems=partial(problems, task="tatoeba_retrieval"),
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
    made: list[Problem] = []
    for (switched, original), rows in parts.items():
        (foreign,) = {*inputs.languages} - {original}
        ids, originals = rows["pair_id"].to_arrow(), Texts.of(original, rows["original"].to_list())
        replaced = rows["replaced_words"].list.len().to_numpy() / rows["words"].to_numpy()
        problem = retrieval_problem(
            Texts.of(switched, rows["switched"].to_list()),
            ids,
            Pool(texts=originals, ids=ids, gold=np.arange(len(ids))[:, None]),
            config,
            task="code_switched_retrieval",
            dataset=inputs.corpus,
            evaluated_on=f"{original}-{foreign}",
            settings={"switched": switched, "replaced_share": round(float(replaced.mean()), 4)},
        )
        made.append(problem)
    return made


CODE_SWITCHED = Task(
    name="code_switched_retrieval",
    scope="pair",
    tables=("code_switched_pairs",),
    problems=code_switched_problems,
    kinds=("translations", "bitext"),
)

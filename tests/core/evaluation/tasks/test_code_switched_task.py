"""Tests retrieval of the originals of code-switched sentences."""

from dataclasses import replace

import numpy as np
import pytest
from task_inputs import CONFIG, problems, scored, switched_inputs

from disent_core.text import text_key

NAME = "code_switched_retrieval"
ROWS = {
    "1": ("ich bin at home", "i am at home", 4, ["zu", "hause"]),
    "2": ("halt please", "stop please", 2, ["bitte"]),
    "3": ("gute night", "good night", 2, ["nacht"]),
}


def test_queries_are_the_switched_sentences_and_candidates_their_originals():
    (problem,) = problems(NAME, switched_inputs(ROWS))
    query, pool = problem.texts["query"], problem.texts["pool"]
    assert (query.language, pool.language) == ("de", "en")
    assert query.texts == [row[0] for row in ROWS.values()]
    assert pool.keys == [text_key(row[1]) for row in ROWS.values()]
    accuracy = scored(problem, query=np.eye(3), pool=np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 1.1]]))["accuracy_at_1"]
    assert accuracy.items.tolist() == [1.0, 0.0, 0.0]
    assert (problem.settings["switched"], problem.settings["replaced_share"]) == ("de", 0.5)


@pytest.mark.parametrize("pair", ["de-en", "en-de"])
@pytest.mark.parametrize("switched", ["de", "en"])
def test_the_name_is_original_and_other_language_however_the_pair_is_written(pair, switched):
    (problem,) = problems(NAME, switched_inputs(ROWS, pair, switched))
    assert problem.evaluated_on == "en-de"
    assert problem.texts["query"].language == switched


def test_without_switched_sentences_in_the_split_there_is_no_problem():
    assert problems(NAME, switched_inputs(ROWS, split="train")) == []
    assert problems(NAME, replace(switched_inputs(ROWS), tables={})) == []  # a pair without a word list
    (problem,) = problems(NAME, switched_inputs(ROWS, split="dev"), replace(CONFIG, split="dev"))
    assert problem.settings["split"] == "dev"


def test_an_original_that_is_there_twice_counts_as_the_rule_says():
    twice = {"1": ROWS["1"], "9": ("i am zu hause", *ROWS["1"][1:])}
    (problem,) = problems(NAME, switched_inputs(twice))
    assert problem.settings["pool_duplicates"] == 1
    assert scored(problem, query=np.ones((2, 2)), pool=np.ones((2, 2)))["accuracy_at_1"].value == 0.5

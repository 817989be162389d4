"""Tests retrieval from pools of several languages, by slot values and of paraphrases, against loops and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import CONFIG, pair_inputs, scored, utterance_inputs, utterances

from disent_core.evaluation.tasks import mixed_pool_retrieval, monolingual_retrieval
from disent_core.evaluation.tasks.monolingual_retrieval import template_and_values


def parallel(**texts):
    tables = {
        language: utterances(language, {str(i): (None, text) for i, text in enumerate(rows)})
        for language, rows in texts.items()
    }
    return utterance_inputs(tables)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("bcd")), min_size=1, max_size=7), st.integers(0, 99))
def test_the_nearest_text_of_both_languages_equals_a_loop_that_skips_what_equals_the_query(pairs, seed):
    english, german = zip(*pairs, strict=True)
    inputs, texts = parallel(en=english, de=german), [*english, *german]
    vectors = dict(zip("abcd", np.random.default_rng(seed).normal(size=(4, 5)), strict=True))  # equal texts, equal rows
    queries = [row for row in range(len(pairs)) if english[row] != german[row]]
    both = [task.problems(inputs, CONFIG) for task in (mixed_pool_retrieval.TASK, mixed_pool_retrieval.OWN_LANGUAGE)]
    if not queries:
        assert both == [[], []]
        return
    translations, same_language = [], []
    for query in queries:
        allowed = [row for row in range(len(texts)) if texts[row] != texts[query]]
        first = max(allowed, key=lambda row: _cosine(vectors[texts[row]], vectors[texts[query]]))
        translations.append(first == query + len(pairs))
        same_language.append(first < len(pairs))
    matrices = {"query": [vectors[text] for text in english], "other": [vectors[text] for text in german]}
    (forth, _), (forth_language, _) = both
    assert scored(forth, **matrices)["accuracy_at_1"].items.tolist() == translations
    assert scored(forth_language, **matrices)["share"].items.tolist() == same_language


def _cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_a_copy_of_the_translation_is_correct_only_if_equal_texts_count():
    inputs = parallel(en=["one", "two", "other"], de=["eins", "eins", "anders"])
    matrices = {"query": np.eye(3)[[0, 0, 1]], "other": np.eye(3)[[0, 0, 1]]}
    matrices["query"][0] += [0, 0, 0.1]  # so that "one" and "two" are not each other's nearest
    matrices["query"][1] -= [0, 0, 0.1]
    strict, _ = mixed_pool_retrieval.problems(inputs, CONFIG)
    lenient, _ = mixed_pool_retrieval.problems(inputs, replace(CONFIG, equal_text_counts=True))
    assert scored(strict, **matrices)["accuracy_at_1"].items.tolist() == [1, 0, 1]
    assert scored(lenient, **matrices)["accuracy_at_1"].items.tolist() == [1, 1, 1]


def test_both_directions_are_measured_for_translations_too():
    inputs = pair_inputs(("en", "de"), {"1": ("one", "eins"), "2": ("two", "zwei")}, "translations")
    forth, back = mixed_pool_retrieval.problems(inputs, CONFIG)
    assert (forth.evaluated_on, back.evaluated_on) == ("en-de", "de-en")
    assert forth.settings["pool_size"] == 4


LETTERS = st.tuples(st.sampled_from("abc"), st.sampled_from("bcd"), st.sampled_from("abd"))


@given(st.booleans(), st.lists(LETTERS, min_size=1, max_size=9), st.integers(0, 99))
def test_the_nearest_text_of_all_languages_equals_a_loop_that_skips_what_equals_the_query(
    equal_text_counts, utterances_in_all, seed
):
    columns = dict(zip(("de", "en", "ja"), map(list, zip(*utterances_in_all, strict=True)), strict=True))
    vectors = dict(zip("abcd", np.random.default_rng(seed).normal(size=(4, 5)), strict=True))  # equal texts, equal rows
    config = replace(CONFIG, equal_text_counts=equal_text_counts)
    problems = mixed_pool_retrieval.LANGUAGE_POOL.problems(parallel(**columns), config)
    pool = [(language, row, text) for language, texts in columns.items() for row, text in enumerate(texts)]
    right, same_language = [], []
    for row, texts in enumerate(utterances_in_all):
        if len(set(texts)) == 1:
            continue
        of_right, of_language = [], []
        for language, column in columns.items():
            others = [candidate for candidate in pool if candidate[2] != column[row]]
            nearest = max(others, key=lambda candidate: _cosine(vectors[candidate[2]], vectors[column[row]]))
            is_copy = equal_text_counts and nearest[2] in texts
            of_right.append(nearest[1] == row or is_copy)
            of_language.append(nearest[0] == language)
        right.append(np.mean(of_right))
        same_language.append(np.mean(of_language))
    if not right:
        assert problems == []
        return
    (problem,) = problems
    assert (problem.evaluated_on, problem.settings["pool_size"]) == ("de+en+ja", len(pool))
    measured = scored(problem, **{language: [vectors[text] for text in texts] for language, texts in columns.items()})
    assert measured["accuracy_at_1"].items.tolist() == right
    assert measured["own_language_error"].items.tolist() == same_language


def test_a_text_with_many_copies_in_the_pool_still_finds_another_text():
    texts = ["stop"] * 9
    inputs = parallel(de=[*texts, "halt"], en=[*texts, "hold"], ja=[*texts, "tomare"])
    (problem,) = mixed_pool_retrieval.set_problems(inputs, CONFIG)
    assert problem.settings["pool_duplicates"] == 26
    rows = np.ones((10, 2)) + np.outer(np.arange(10) == 9, [0, 1])
    measured = scored(problem, de=rows, en=rows, ja=rows)
    assert measured["accuracy_at_1"].items.tolist() == [1]
    copies = parallel(de=["stop", *texts], en=["halt", *texts], ja=["tomare", *texts])
    (problem,) = mixed_pool_retrieval.set_problems(copies, CONFIG)
    far = np.ones((10, 2))
    far[0] = [1, -1]
    measured = scored(problem, de=np.ones((10, 2)), en=far, ja=far)
    assert measured["accuracy_at_1"].items.tolist() == [1]


ALARMS = {
    "1": (None, "wake me at seven", "O O O B-time"),
    "2": (None, "Remind me at seven", "O O O B-time"),
    "3": (None, "wake me at nine", "O O O B-time"),
    "4": (None, "wake me at Seven", "O O O B-time"),  # the template and the values of the first
    "5": (None, "wake me", "O O"),
    "6": (None, "room seven", "O B-room"),
}


def test_values_are_found_in_other_templates_and_not_in_copies_or_other_types():
    (problem,) = monolingual_retrieval.value_problems(utterance_inputs({"en": utterances("en", ALARMS)}), CONFIG)
    assert problem.texts["pool"].texts == ["wake me at seven", "Remind me at seven", "wake me at nine", "room seven"]
    assert problem.texts["query"].texts == ["wake me at seven", "Remind me at seven"]
    by_values = np.array([[1, 0.1], [1, 0.2], [0, 1], [0.5, 1]])
    assert scored(problem, query=by_values[:2], pool=by_values)["accuracy_at_1"].value == 1
    by_template = np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]])
    assert scored(problem, query=by_template[:2], pool=by_template)["accuracy_at_1"].value == 0


def test_the_order_of_values_belongs_to_the_template():
    there = template_and_values(["from", "rome", "to", "paris"], ["O", "B-from", "O", "B-to"])
    back = template_and_values(["to", "Paris", "from", "Rome"], ["O", "B-to", "O", "B-from"])
    assert there[1] == back[1]
    assert there[0] != back[0]


@pytest.mark.parametrize("rows", [{}, {"1": ALARMS["1"]}, {"1": ALARMS["5"], "2": ALARMS["6"]}])
def test_without_shared_values_the_task_is_empty(rows):
    assert monolingual_retrieval.value_problems(utterance_inputs({"en": utterances("en", rows)}), CONFIG) == []


def test_sentences_that_share_a_translation_are_paraphrases():
    rows = {
        "1": ("Hello.", "Hallo"),
        "2": ("Good day!", "hallo!"),  # its translation differs from the first in case and punctuation alone
        "3": ("hello", "Tag"),  # the first sentence again
        "4": ("Bye", "Ciao"),
        "5": ("Hi", "Hallo", {"split": "train"}),
    }
    english, german = monolingual_retrieval.paraphrase_problems(pair_inputs(("en", "de"), rows, "bitext"), CONFIG)
    assert (english.evaluated_on, english.texts["pool"].texts) == ("en", ["Hello.", "Good day!", "Bye"])
    assert english.texts["query"].texts == ["Hello.", "Good day!"]
    assert english.gold.tolist() == [[1], [0]]
    assert german.texts["query"].texts == ["Hallo", "Tag"]  # both translate "hello"


def test_without_a_shared_translation_the_task_is_empty():
    inputs = pair_inputs(("en", "de"), {"1": ("one", "eins"), "2": ("two", "zwei")}, "bitext")
    assert monolingual_retrieval.paraphrase_problems(inputs, CONFIG) == []

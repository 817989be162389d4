"""Retrieval of translations, templates and originals of code-switched sentences, against counts by hand."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import (
    CONFIG,
    ENGLISH,
    GERMAN,
    crosslingual,
    problems,
    scored,
    switched_inputs,
    template_inputs,
    utterance_inputs,
    utterances,
    vectors,
)

from disent_core.errors import TableError
from disent_core.evaluation import TASKS, EvaluationConfig, task
from disent_core.evaluation.contract import READABLE, Texts
from disent_core.evaluation.tasks.retrieval_problem import Pool, one_per_text, retrieval_problem
from disent_core.storage.tables import SCHEMAS
from disent_core.text import text_key


def score(problem):
    matrices = {role: vectors(texts)["sentence"] for role, texts in problem.texts.items()}
    (measurement,) = problem.score(matrices)
    return measurement


@pytest.mark.parametrize("name", TASKS)
def test_a_task_reads_only_existing_tables(name):
    assert set(task(name).tables) <= set(READABLE) <= set(SCHEMAS)


def test_partitions_of_a_task_are_its_languages_in_every_table():
    mixed = replace(task("crosslingual_retrieval"), tables=("utterances", "masked_utterances"))
    assert mixed.partitions("utterances", ("en", "de")) == [
        (table, language) for table in ("utterances", "masked_utterances") for language in ("en", "de")
    ]


def test_a_task_that_is_named_twice_is_rejected():
    with pytest.raises(ValueError, match=r"tasks names sts more than once"):
        EvaluationConfig(tasks=("sts", "sts"))


def test_crosslingual_retrieval_has_both_directions_of_rows_by_id_and_shares_their_texts():
    forth, back = crosslingual(ENGLISH, GERMAN)
    assert (forth.evaluated_on, back.evaluated_on) == ("en-de", "de-en")
    assert forth.texts["query"] is back.texts["pool"]
    assert forth.texts["pool"] is back.texts["query"]
    assert forth.texts["pool"].keys == [text_key(GERMAN[name]) for name in ENGLISH]
    assert forth.candidate_ids.to_pylist() == list(ENGLISH)


def test_crosslingual_retrieval_ignores_other_splits():
    tables = {"en": utterances("en", ENGLISH, "train"), "de": utterances("de", GERMAN, "train")}
    assert problems("crosslingual_retrieval", utterance_inputs(tables)) == []


COPIES = {"1": "stop", "2": "stop", "3": "wake me"}


@pytest.mark.parametrize(
    ("ties", "equal_text", "expected"),
    [("lowest", False, 2 / 3), ("worst", False, 1 / 3), ("lowest", True, 1), ("worst", True, 1)],
)
def test_a_copy_of_the_gold_text_counts_as_the_rule_says(ties, equal_text, expected):
    config = replace(CONFIG, ties=ties, equal_text_counts=equal_text)
    problem = crosslingual(COPIES, COPIES, config)[0]
    assert score(problem).value == pytest.approx(expected)
    assert (problem.settings["pool_size"], problem.settings["pool_duplicates"]) == (2 if equal_text else 3, 1)


def test_worst_ties_count_even_if_rankings_keep_one_candidate():
    config = replace(CONFIG, ties="worst", top_k=1)
    measured = score(crosslingual(COPIES, COPIES, config)[0])
    assert (measured.value, measured.ranking.indices.shape) == (pytest.approx(1 / 3), (3, 1))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=9), st.integers(0, 99))
def test_counting_equal_texts_equals_comparing_the_text_of_what_is_retrieved(names, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 4))
    keys = [str(name) for name in names]
    pool, queries = rows[names], rng.normal(size=(len(names), 4))
    by_loop = [keys[int(np.argmax([row @ query / np.linalg.norm(row) for row in pool]))] for query in queries]
    ids = pa.array([f"id{place}" for place in range(len(names))])
    all_candidates = Pool(texts=Texts("de", keys), ids=ids, gold=np.arange(len(names))[:, None])
    config, subject = replace(CONFIG, equal_text_counts=True), {"task": "t", "dataset": "d", "evaluated_on": "en-de"}
    problem = retrieval_problem(Texts("en", keys), ids, all_candidates, config, **subject)
    kept = [int(key) for key in problem.texts["pool"].keys]
    (measurement,) = problem.score({"query": queries, "pool": rows[kept]})
    assert measurement.items.tolist() == [float(a == b) for a, b in zip(by_loop, keys, strict=True)]


def test_gold_candidates_of_one_text_become_one():
    texts = Texts("en", ["b", "a", "b", "c"])
    pool = Pool(texts=texts, ids=pa.array(list("0123")), gold=np.array([[0, 2], [1, 3]]), skip=np.array([2, 3]))
    small = one_per_text(pool)
    assert small.texts.keys == ["b", "a", "c"]
    assert small.ids.to_pylist() == ["0", "1", "3"]
    assert small.gold.tolist() == [[0, -1], [2, 1]]
    assert small.skip.tolist() == [0, 2]


TEMPLATES = {
    "a": ("wake me at six", ["wake me at nine", "wake me at ten"]),
    "b": ("play jazz", ["play rock", "play folk"]),
    "c": ("call mum", ["call dad"]),
}


def template(config=CONFIG, name="template_retrieval"):
    return problems(name, template_inputs(TEMPLATES), config)


def test_template_retrieval_has_one_target_per_source():
    (problem,) = template()
    assert problem.query_ids.to_pylist() == ["a", "b", "c"]
    assert problem.candidate_ids.to_pylist() == ["a#0", "b#0", "c#0"]
    assert problem.texts["query"].keys == [text_key(source) for source, _ in TEMPLATES.values()]
    assert problem.texts["pool"].keys == [text_key(targets[0]) for _, targets in TEMPLATES.values()]
    assert problem.gold.ravel().tolist() == [0, 1, 2]


def test_sources_with_too_few_targets_are_excluded_or_have_fewer_gold_candidates():
    (problem,) = template(replace(CONFIG, multi_targets=2), "multi_target_template_retrieval")
    assert problem.query_ids.to_pylist() == ["a", "b"]
    assert problem.candidate_ids.to_pylist() == ["a#0", "a#1", "b#0", "b#1"]
    assert problem.gold.tolist() == [[0, 1], [2, 3]]
    config = replace(CONFIG, multi_targets=2, multi_target_few="fewer")
    (problem,) = template(config, "multi_target_template_retrieval")
    assert problem.gold.tolist() == [[0, 1], [2, 3], [4, -1]]
    assert template(replace(CONFIG, multi_targets=7), "multi_target_template_retrieval") == []


def test_map_equals_a_loop_over_the_whole_ranking():
    config = replace(CONFIG, multi_targets=2, multi_target_few="fewer")
    (problem,) = template(config, "multi_target_template_retrieval")
    queries, pool = (vectors(problem.texts[role])["sentence"] for role in ("query", "pool"))
    precisions = []
    for query, gold in zip(queries, problem.gold, strict=True):
        order = np.argsort([-query @ row / np.linalg.norm(row) for row in pool])
        hits = [rank for rank, place in enumerate(order, 1) if place in gold]
        precisions.append(np.mean([number / rank for number, rank in enumerate(hits, 1)]))
    measured = score(problem)
    assert (measured.metric, measured.value) == ("map", pytest.approx(np.mean(precisions)))


def test_a_source_in_the_pool_is_skipped_only_for_its_own_query():
    (problem,) = template(replace(CONFIG, template_pool="targets+sources"))
    assert problem.candidate_ids.to_pylist()[3:] == sorted(problem.candidate_ids.to_pylist()[3:])
    queries, pool = problem.texts["query"].keys, problem.texts["pool"].keys
    matrices = {role: vectors(texts)["sentence"] for role, texts in problem.texts.items()}
    ranking = replace(problem, top_k=9).score(matrices)[0].ranking
    for query, row in zip(queries, ranking.indices, strict=True):
        assert sorted(pool[place] for place in row) == sorted(key for key in pool if key != query)


ALIKE = {
    "a": ("wake me at six", ["wake me at nine"], "O O O B-time"),
    "b": ("Wake me at ten", ["wake me at two"], "O O O B-time"),
    "c": ("wake me at home", ["wake me at work"], "O O O B-place"),
    "d": ("play jazz", ["play rock"], "O B-genre"),
    "e": ("wake me at six", ["wake me at four"], "O O O B-time"),
}


def same_template(config=CONFIG):
    inputs = template_inputs({name: row[:2] for name, row in ALIKE.items()})
    table = utterances("en", {name: (None, source, tags) for name, (source, _, tags) in ALIKE.items()})
    tables = {**inputs.tables, ("utterances", "en"): table}
    (problem,) = problems("same_template_retrieval", replace(inputs, tables=tables), config)
    return problem


def test_exactly_the_targets_of_the_template_are_gold():
    problem = same_template()
    golds = [{ids for ids in row if ids >= 0} for row in problem.gold.tolist()]
    assert golds == [{0, 1, 4}, {0, 1, 4}, {2}, {3}, {0, 1, 4}]
    pool = np.eye(5)
    queries = pool[[4, 0, 0, 3, 2]]  # a finds e's target, b finds a's, c finds a's, d its own, e finds c's
    assert scored(problem, query=queries, pool=pool)["accuracy_at_1"].items.tolist() == [1, 1, 0, 1, 0]
    assert problem.score({"query": queries, "pool": pool})[0].ranking.is_gold[:, 0].tolist() == [1, 1, 0, 1, 0]


def test_equal_scores_of_gold_candidates_are_no_error_and_those_of_others_are_if_ties_are_worst():
    pool = np.eye(5)
    pool[1] = pool[0]  # the targets of a and b, of one template
    pool[3] = pool[2]  # those of c and d
    hits = {
        ties: scored(same_template(replace(CONFIG, ties=ties)), query=pool, pool=pool)["accuracy_at_1"].items.tolist()
        for ties in ("lowest", "worst")
    }
    assert hits == {"lowest": [1, 1, 1, 0, 1], "worst": [1, 1, 0, 0, 1]}


def test_sources_of_the_template_are_gold_too_but_not_the_text_of_the_query():
    problem = same_template(replace(CONFIG, template_pool="targets+sources"))
    names = problem.candidate_ids.to_pylist()
    golds = [{names[place] for place in row if place >= 0} for row in problem.gold.tolist()]
    targets = {"a#0", "b#0", "e#0"}
    # The texts of a and e are one candidate.
    assert golds == [targets | {"b"}, targets | {"a"}, {"c#0"}, {"d#0"}, targets | {"b"}]


def test_a_source_that_the_utterances_lack_is_an_error():
    inputs = template_inputs(TEMPLATES)
    tables = {**inputs.tables, ("utterances", "en"): utterances("en", {"a": "wake me at six"})}
    with pytest.raises(TableError, match="toy en: source utterance b of template_pairs is not among the utterances"):
        problems("same_template_retrieval", replace(inputs, tables=tables))


def test_a_duplicate_target_index_is_an_error():
    inputs = template_inputs(TEMPLATES)
    (table,) = inputs.tables.values()
    doubled = {("template_pairs", "en"): pa.concat_tables([table, table])}
    with pytest.raises(TableError, match="source utterance a of template_pairs repeats"):
        problems("template_retrieval", replace(inputs, tables=doubled))


SWITCHED = "code_switched_retrieval"
SWITCHED_ROWS = {
    "1": ("ich bin at home", "i am at home", 4, ["zu", "hause"]),
    "2": ("halt please", "stop please", 2, ["bitte"]),
    "3": ("gute night", "good night", 2, ["nacht"]),
}


def test_queries_are_the_switched_sentences_and_candidates_their_originals():
    (problem,) = problems(SWITCHED, switched_inputs(SWITCHED_ROWS))
    query, pool = problem.texts["query"], problem.texts["pool"]
    assert (query.language, pool.language) == ("de", "en")
    assert query.texts == [row[0] for row in SWITCHED_ROWS.values()]
    assert pool.keys == [text_key(row[1]) for row in SWITCHED_ROWS.values()]
    accuracy = scored(problem, query=np.eye(3), pool=np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 1.1]]))["accuracy_at_1"]
    assert accuracy.items.tolist() == [1.0, 0.0, 0.0]
    assert (problem.settings["switched"], problem.settings["replaced_share"]) == ("de", 0.5)


@pytest.mark.parametrize("pair", ["de-en", "en-de"])
@pytest.mark.parametrize("switched", ["de", "en"])
def test_the_direction_is_original_to_switched_language_in_either_pair_order(pair, switched):
    (problem,) = problems(SWITCHED, switched_inputs(SWITCHED_ROWS, pair, switched))
    assert problem.evaluated_on == "en-de"
    assert problem.texts["query"].language == switched


def test_without_switched_sentences_in_the_split_the_task_is_empty():
    assert problems(SWITCHED, switched_inputs(SWITCHED_ROWS, split="train")) == []
    assert problems(SWITCHED, replace(switched_inputs(SWITCHED_ROWS), tables={})) == []  # a pair without a word list
    (problem,) = problems(SWITCHED, switched_inputs(SWITCHED_ROWS, split="dev"), replace(CONFIG, split="dev"))
    assert problem.settings["split"] == "dev"

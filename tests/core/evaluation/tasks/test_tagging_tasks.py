"""Tests what the three F1 metrics of slots and entities count, against seqeval and a loop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score
from task_inputs import problems, utterance_inputs, utterances

TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]
TAGGINGS = st.lists(st.lists(st.tuples(*[st.sampled_from(TAGS)] * 2), min_size=1, max_size=6), min_size=1, max_size=5)


def problem(gold, name="slot_labelling"):
    rows = {str(place): (None, " ".join(f"w{i}" for i in tags), " ".join(tags)) for place, tags in enumerate(gold)}
    tag_problems = problems(name, utterance_inputs({"en": utterances("en", rows)}))
    return tag_problems[0] if tag_problems else None


def measures(gold, tags):
    return {measured.metric: measured for measured in problem(gold).score(tags)}


def strict_spans(tags):
    """(type, start, end) as xSID's script reads them: a B- and all I- that follow."""
    spans = set()
    for start, tag in enumerate(tags):
        if tag[0] == "B":
            end = start + 1
            while end < len(tags) and tags[end][0] == "I":
                end += 1
            spans.add((tag[2:], start, end))
    return spans


@given(TAGGINGS)
def test_the_measures_are_those_of_seqeval_and_of_loops(pairs):
    gold, tags = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    if all(tag == "O" for sentence in gold for tag in sentence):
        assert problem(gold) is None
        return
    measured = measures(gold, tags)
    assert measured["seqeval_f1"].value == pytest.approx(f1_score(gold, tags))
    spans = list(zip(map(strict_spans, gold), map(strict_spans, tags), strict=True))
    hits, sizes = sum(len(left & right) for left, right in spans), sum(len(left) + len(right) for left, right in spans)
    assert measured["span_f1"].value == pytest.approx(2 * hits / sizes if sizes else 0)
    words = [pair for sentence in pairs for pair in sentence]
    hits, sizes = sum(a == b != "O" for a, b in words), sum((a != "O") + (b != "O") for a, b in words)
    assert measured["micro_f1"].value == pytest.approx(2 * hits / sizes)
    assert {measurement.n for measurement in measured.values()} == {len(gold)}


def test_a_tag_too_few_is_an_error():
    with pytest.raises(ValueError, match="has 2 gold tags and 1 predicted"):
        problem([["B-a", "O"]]).score([["O"]])


def test_entities_are_measured_as_slots_are():
    gold = [["B-per", "I-per", "O"], ["O", "B-loc"]]
    entity_problem = problem(gold, "ner")
    assert (entity_problem.task, entity_problem.evaluated_on) == ("ner", "en")
    assert entity_problem.settings == {"split": "test"}
    assert [measured.value for measured in entity_problem.score(gold)] == [1, 1, 1]
    assert problem([["O"]], "ner") is None

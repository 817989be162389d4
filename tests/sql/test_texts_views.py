"""`ceilings` and `train_overlap`: how far template retrieval can get, and whether a lead comes from training texts."""

from collections import Counter

import numpy as np
import pytest

from disent_core.evaluation.tasks.monolingual_retrieval import template_and_values

RELATIONS = ("ceilings", "train_overlap")
SLOTS = ("time", "place", "date")


def utterance(name, words, tags=None, **columns):
    tokens = words.split()
    tags = tags.split() if tags else ["O"] * len(tokens)
    return {"utterance_id": name, "text": words, "tokens": tokens, "slot_tags": tags, **columns}


def drawn_utterances(n=60):
    """Utterances of few words and slots, so that templates meet."""
    rng = np.random.default_rng(4)
    for name in range(n):
        tags, words = [], []
        for _ in range(rng.integers(1, 3)):
            slot = rng.choice(SLOTS)
            words += [rng.choice(["wake", "Go"]), *rng.choice(["six", "am", "home"], 2)]
            tags += ["O", f"B-{slot}", rng.choice([f"I-{slot}", f"B-{slot}"])]
        yield utterance(str(name), " ".join(words), " ".join(tags))


def test_ceilings_equal_a_loop_over_sources_and_templates_those_of_the_tasks(warehouse):
    utterances = list(drawn_utterances())
    targets = [{"source_utterance_id": row["utterance_id"], "target_index": index}
               for row in utterances[10:] for index in range(2)]  # fmt: skip
    warehouse.build(utterances=utterances, template_pairs=targets, rankings=[])
    templates = [template_and_values(row["tokens"], row["slot_tags"])[0] for row in utterances[10:]]
    words = [tuple("[]" if word.startswith("[") else word for word in template) for template in templates]
    (row,) = warehouse.ask("from ceilings")
    assert (row["dataset"], row["evaluated_on"], row["split"], row["n"]) == ("massive", "en", "test", 50)
    for column, of_source in (("ceiling", templates), ("ceiling_without_types", words)):
        copies = Counter(of_source)
        assert row[column] == pytest.approx(np.mean([1 / copies[template] for template in of_source]))
    assert row["told_apart"] == pytest.approx(np.mean([Counter(templates)[template] == 1 for template in templates]))
    assert row["ceiling_without_types"] < row["ceiling"] < 1
    expected = {row["utterance_id"]: " ".join(template_and_values(row["tokens"], row["slot_tags"])[0])
                for row in utterances}  # fmt: skip
    assert dict(warehouse.rows("select utterance_id, typed_template from parts.templates")) == expected


TRAIN = [utterance("a", "wake me  UP", split="train"), utterance("b", "wake at nine", "O O B-time", split="train")]
TEST = [
    *(utterance("1", "Wake me up"), utterance("1", "auf", language="de")),  # an equal text in train
    *(utterance("2", "wake at six", "O O B-time"), utterance("2", "um sechs", language="de")),  # an equal template
    *(utterance("3", "wake at six", "O O B-place"), utterance("3", "zu hause", language="de")),  # neither
    *(utterance("4", "good night"), utterance("4", "nacht", language="de")),  # its German text is English training text
    *(utterance("5", "sun"), utterance("5", "sonne", language="de")),  # its translation is a training text
]
TRAIN += [utterance("c", "nacht", split="train"), utterance("d", "Sonne", split="train", language="de")]


def overlap(warehouse, hits, **more):
    rankings = [{"query_id": str(place + 1), "is_gold": bool(hit), "method": method, **more}
                for method, of_method in hits.items() for place, hit in enumerate(of_method)]  # fmt: skip
    warehouse.build(utterances=[*TRAIN, *TEST], template_pairs=[], rankings=rankings)
    return {row["method"]: row for row in warehouse.ask("from train_overlap")}


def test_queries_overlapping_training_texts_are_counted_and_excluded(warehouse):
    rows = overlap(warehouse, {"facet": (1, 1, 0, 1, 0), "raw": (0, 0, 0, 1, 1)})
    facet, raw = rows["facet"], rows["raw"]
    assert [facet[name] for name in ("n_all", "n_equal", "n_template")] == [5, 2, 3]
    names = ("accuracy_all", "accuracy_without_equal", "accuracy_without_template")
    assert [facet[name] for name in names] == pytest.approx([3 / 5, 2 / 3, 1 / 2])
    assert [raw[name] for name in names] == pytest.approx([2 / 5, 1 / 3, 1 / 2])
    leads = [name.replace("accuracy", "lead") for name in names]
    assert [facet[name] for name in leads] == pytest.approx([1 / 5, 1 / 3, 0])
    assert [raw[name] for name in leads] == pytest.approx([-1 / 5, -1 / 3, 0])


def test_both_directions_count_the_same_queries_and_a_single_method_has_no_lead(warehouse):
    (row,) = overlap(warehouse, {"facet": (1, 1, 0, 1, 0)}, evaluated_on="de-en").values()
    assert [row[name] for name in ("n_all", "n_equal", "n_template")] == [5, 2, 3]
    assert row["lead_all"] is None


def test_a_language_whose_code_has_a_hyphen_is_looked_up_whole(warehouse):
    utterances = [*TRAIN, TEST[0], utterance("1", "UP", language="zh-CN")]
    utterances += [utterance("e", "up", split="train", language="zh-CN")]
    warehouse.build(utterances=utterances, template_pairs=[], rankings=[{"evaluated_on": "zh-CN-en"}])
    (row,) = warehouse.ask("from train_overlap")
    assert (row["n_all"], row["n_equal"]) == (1, 1)

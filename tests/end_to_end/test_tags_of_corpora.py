"""Slots of one corpus and entities of another are different tags: a method that tags may keep to one of them."""

import pytest
from projects import new_project
from worlds import corpus, section

import disent

pytestmark = pytest.mark.end_to_end

NAMES = corpus("names", "conll", train=False)
SHORT = {"method": "token_classification", "examples": 20, "epochs": 1}
METHODS = (
    section("methods.slots", **SHORT, pairs=["en"])
    + section("methods.entities", **SHORT, pairs=["en", "en-da"], corpora=["names"])
    + "\n[methods.dream]"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """English has slots and entities, Danish entities only; heads in general don't train on them. It has run once."""
    made = new_project(tmp_path_factory.mktemp("tags"))
    for language, verb in (("en", "leaves"), ("da", "rejser")):
        for split, first in (("train", 0), ("dev", 40), ("test", 60)):
            sentences = [
                [f"Ada{place} B-PER", f"{verb} O", f"Oslo{place} B-LOC", ""] for place in range(first, first + 30)
            ]
            made.write_lines(f"names/{language}/{split}.txt", [line for sentence in sentences for line in sentence])
    made.configure("[[encoders]]", f"{NAMES}\n[[encoders]]")
    made.only("slots", "entities")
    made.configure("\n[methods.dream]", METHODS)
    made.materialize()
    return made


def test_a_tagger_learns_and_is_measured_on_the_corpora_that_it_names_and_is_asked_from_python(project):
    rows = project.ask("select distinct method, task, trained_on, dataset, evaluated_on from metrics order by all")
    assert [tuple(row.values()) for row in rows] == [
        ("entities", "ner", "en", "names", "en"),
        ("entities", "ner", "en-da", "names", "da"),
        ("slots", "slot_labelling", "en", "sample", "en"),
    ]
    head = disent.open(project.config, home=project.home).head("entities", pair="en")
    tags = head.label([["Ada1", "leaves", "Oslo1"], ["Ada2"]], language="en")
    assert [len(sentence) for sentence in tags] == [3, 1]
    assert {tag for sentence in tags for tag in sentence} <= {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
    with pytest.raises(ValueError, match="does not embed; call label"):
        head.embed(["Ada1 leaves Oslo1"], language="en")
    with pytest.raises(ValueError, match="this head tags en only, not 'da'"):
        head.label([["Ada1"]], language="da")


def test_a_tagger_is_trained_anew_by_its_own_corpora_alone(project, tmp_path):
    project = project.copy(tmp_path)
    before = project.weights()
    path = project.folder / "names/en/train.txt"
    path.write_text(path.read_text(encoding="utf-8").replace("O\nOslo", "O\nElse"), encoding="utf-8")
    project.materialize("+key:heads/*")
    changed = {head for head, content in project.weights().items() if content != before[head]}
    assert changed == {"tiny/entities/en"}

"""A facet head that is trained on the sample corpora finds utterances of the same template for sentences of our own."""

import json
import re

import pytest
from projects import SAMPLE, SCRATCH, Project
from worlds import corpus, experiment, section

import disent

pytestmark = pytest.mark.end_to_end
CONFIG = (
    corpus("sample", path="corpus", languages=["en-US", "de-DE"])
    + f"\n[[encoders]]\n{SCRATCH}"
    + experiment("facet", seeds=[0], device="cpu")
    + section(
        "methods.facet", template_units=64, residual_units=64, template_words=64, residual_words=64, batch_size=128,
        epochs=8,
    )
)  # fmt: skip
QUERIES = {
    "where can my sister eat pancakes in lisbon": "where can my .* eat .* in .*",
    "my uncle wants olives put that on the party list": "my .* wants .* put that on the .* list",
    "at seven fade the lights in the cellar to violet": "at .* fade the lights in the .* to .*",
    "convert dollars to yen": "convert .* to .*",
    "add butter to my camping list": "add .* to my .* list",
    "i want to listen to reggae in the garage": "i want to listen to .* in the .*",
    "create a playlist with mozart and adele for sunday": "create a playlist with .* and .* for .*",
    "forward the invitation for the picnic to my cousin": "forward the invitation for the .* to my .*",
    "tell anna the current value of the peso": "tell .* the current value of the .*",
    "is there a lot of traffic between oslo and bergen": "is there a lot of traffic between .* and .*",
}
"""Sentences by hand, with the template of an utterance of the sample corpora; their values need not be in these."""


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The English training utterances."""
    project = Project(tmp_path_factory.mktemp("facet"))
    project.config.write_text(CONFIG, encoding="utf-8")
    for locale in ("en-US", "de-DE"):
        lines = (SAMPLE / f"{locale}.jsonl").read_text(encoding="utf-8").splitlines()
        of_split = {split: [row for row in map(json.loads, lines) if row["partition"] == split] for split in
                    ("train", "dev", "test")}  # fmt: skip
        project.write(locale, [*of_split["train"], *of_split["dev"][:20], *of_split["test"][:20]])
    project.materialize("+heads")
    texts = [row["utt"] for row in project.utterances("en-US")[:1120]]
    model = disent.load(project.workspace.head("tiny", "facet", "en-de"))
    return disent.Index.build(project.folder / "index", model, texts, language="en")


def test_the_same_template_comes_first_for_nine_of_ten_sentences(index):
    first = {query: hits[0].text for query, hits in zip(QUERIES, index.search([*QUERIES], "template"), strict=True)}
    assert sum(re.fullmatch(QUERIES[query], text) is not None for query, text in first.items()) >= 9, first


def test_a_residual_finds_the_values_where_the_template_finds_the_shape(index):
    query = "create a playlist with mozart for sunday"
    by_template, by_residual = (index.search(query, by, 20) for by in ("template", "residual"))
    with_values = [sum("sunday" in hit.text for hit in hits) for hits in (by_template, by_residual)]
    assert with_values[0] < with_values[1], with_values

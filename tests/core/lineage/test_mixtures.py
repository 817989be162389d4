"""The dev accuracy of a head of a mixture is the mean over its pairs, whose copies of a text do not compete."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import worlds

from disent_core.config.load import load_config
from disent_core.lineage import head_spec
from disent_core.lineage.evaluation_inputs import evaluation_sets, provenance
from disent_core.lineage.heads import head_and_data, load_head, train
from disent_core.lineage.steps import GATE_VERSION, steps
from disent_core.lineage.workspace import ALIGNED, MATES, Workspace, evaluation_sets_key, training_data_key
from disent_core.methods import spec
from disent_core.storage.tables import SCHEMAS, read_table
from disent_core.training.data import TextFeatures, VectorBank

LOCALES = {"en": "en-US", "de": "de-DE", "es": "es-ES", "ja": "ja-JP"}
NOISE = {"en": 0.0, "de": 0.5, "es": 1.0, "ja": 2.0}
MIXTURE = "en-de+en-es+en-ja"
TEXT = (
    worlds.corpus("toy", path="corpus", languages=[*LOCALES.values()])
    + worlds.encoder(kind="vectors", path="vectors")
    + worlds.experiment(
        "centered", "infonce", "lexicon", "dream", "softmax", pairs=["en-de", MIXTURE, "all", "some"], seeds=[0]
    )
    + worlds.section("training_sets.all", evaluate=["de-ja"])
    + worlds.section("training_sets.some", languages=["de"])
    + worlds.section("methods.infonce", units=8, max_epochs=2)
    + worlds.section("methods.lexicon", epochs=1)
    + worlds.section("methods.dream", max_epochs=1)
    + worlds.section("methods.softmax", preset="head", epochs=1)
)
COUNTS = {"train": 12, "dev": 9, "test": 1}


RANKED, OTHERS = ("centered", "infonce", "lexicon"), ("dream", "softmax")
"""Methods whose training ranks the dev pairs, and methods whose training does not."""


def text_of(language, number):
    return f"{language} utterance {number}"


def vectors_of(language):
    """Vectors of the texts of a language: their meanings, with more noise the further the language is from English."""
    random = np.random.default_rng([ord(letter) for letter in language])
    meanings = [np.random.default_rng(number).normal(size=6) for number in range(sum(COUNTS.values()))]
    return np.stack([meaning + NOISE[language] * random.normal(size=6) for meaning in meanings]).astype("float32")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """Files of MASSIVE's shape, vectors of their texts, and every step before the heads."""
    folder = tmp_path_factory.mktemp("mixtures")
    (folder / "corpus").mkdir()
    (folder / "vectors").mkdir()
    splits = [split for split, count in COUNTS.items() for _ in range(count)]
    for language, locale in LOCALES.items():
        rows = [
            {"id": str(number), "locale": locale, "partition": split, "scenario": "s", "intent": f"i{number % 2}",
             "utt": text_of(language, number), "annot_utt": text_of(language, number)}
            for number, split in enumerate(splits)
        ]  # fmt: skip
        (folder / "corpus" / f"{locale}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        texts = {"text": [row["utt"] for row in rows], "vector": list(vectors_of(language))}
        pq.write_table(pa.table(texts), folder / "vectors" / f"{language}.parquet")
    (folder / "disent.toml").write_text(TEXT)
    made = Workspace(load_config(folder / "disent.toml"), folder / "home")
    for step in steps(made):
        if step.key[0] in ("corpora", "negatives", "targets", "embeddings"):
            for partition in step.partitions or [None]:
                step.make(partition)
    return made


def dev_meanings(workspace, name, language):
    """Embeddings of the dev texts of a language, in order, by the head of the mixture that is on disk."""
    numbers = range(COUNTS["train"], COUNTS["train"] + COUNTS["dev"])
    rows, texts = torch.tensor(numbers), [text_of(language, number) for number in numbers]
    bank = VectorBank([torch.from_numpy(vectors_of(language))])
    head = load_head(workspace, "toy", workspace.config.methods[name], MIXTURE, "cpu")
    embedded = head.embed(TextFeatures(bank, rows, language=language, texts=texts), None if name == "centered" else 0)
    vectors = embedded.get("meaning", embedded.get("sentence")).astype("float64")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def accuracy(queries, pool):
    return np.mean([int(np.argmax(pool @ query)) == number for number, query in enumerate(queries)])


@pytest.mark.parametrize("name", RANKED)
def test_the_dev_accuracy_of_a_mixture_is_the_mean_over_its_pairs(workspace, name):
    train(workspace, "toy", workspace.config.methods[name], MIXTURE)
    curve = read_table(workspace.training_curve("toy", name, MIXTURE), SCHEMAS["training_curve"]).to_pylist()
    # The weights are those of the best epoch, or of the last one.
    kept = [row for row in curve if row["term"] == "accuracy_at_1" and row["split"] == "dev" and row["is_best"]]
    meanings = {language: dev_meanings(workspace, name, language) for language in LOCALES}
    pairs = [(meanings["en"], meanings[language]) for language in ("de", "es", "ja")]
    expected = np.mean([(accuracy(left, right) + accuracy(right, left)) / 2 for left, right in pairs])
    assert kept[-1]["value"] == pytest.approx(expected)
    queries, pool = (np.concatenate(side) for side in zip(*pairs, strict=True))
    in_one_pool = (accuracy(queries, pool) + accuracy(pool, queries)) / 2
    assert expected > in_one_pool + 0.1, "for this test to say something"


def fingerprints(workspace, names, training_set):
    """Fingerprints of what the heads are made from."""
    methods = workspace.config.methods
    return [head_and_data(workspace, "toy", methods[name], training_set)[0].inputs for name in names]


def test_only_ranked_mixture_heads_have_a_separate_fingerprint(workspace, monkeypatch):
    by_name = {name: fingerprints(workspace, (*RANKED, *OTHERS), name) for name in ("en-de", MIXTURE)}
    monkeypatch.setattr(spec, "mixture_version", lambda *_: ())
    assert fingerprints(workspace, (*RANKED, *OTHERS), "en-de") == by_name["en-de"]
    assert fingerprints(workspace, OTHERS, MIXTURE) == by_name[MIXTURE][len(RANKED) :]
    assert not set(fingerprints(workspace, RANKED, MIXTURE)) & set(by_name[MIXTURE])


def test_the_head_of_a_named_set_equals_that_of_its_mixture_or_pair(workspace):
    names = (*RANKED, *OTHERS)
    assert fingerprints(workspace, names, "all") == fingerprints(workspace, names, MIXTURE)
    assert fingerprints(workspace, names, "some") == fingerprints(workspace, names, "en-de")


CHANGES = {
    "another pivot": ('evaluate = ["de-ja"]', 'pivot = "de"\nevaluate = ["es-ja"]'),
    "a language less": ('evaluate = ["de-ja"]', 'languages = ["de", "ja"]\nevaluate = ["de-ja"]'),
    "another further pair": ('evaluate = ["de-ja"]', 'evaluate = ["es-ja"]'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_redefining_a_named_set_changes_the_version_of_its_steps(load, workspace, change):
    """Steps have another version where the new pairs are of the same languages, so that nothing else tells them."""
    text = TEXT.replace(f'["en-de", "{MIXTURE}", "all", "some"]', '["all"]')
    other = text.replace(*CHANGES[change])
    before, after = (
        {step.key: step.version for step in steps(Workspace(load(of), workspace.home))} for of in (text, other)
    )
    assert {key for key in before if before[key] != after[key]} == {evaluation_sets_key("toy"), ALIGNED, MATES}


@pytest.mark.parametrize("change", ["a language less", "another further pair"])
def test_redefining_a_named_set_remeasures_only_its_metrics(workspace, change):
    path = workspace.config.path.with_name("changed.toml")
    path.write_text(TEXT.replace(*CHANGES[change]))
    others = Workspace(load_config(path), workspace.home)

    def inputs(of, method, training_set):
        configured = of.config.methods[method]
        if configured.method.is_trained:
            train(workspace, "toy", workspace.config.methods[method], training_set)
        return provenance(of, "toy", configured, training_set).inputs

    for training_set, is_same in (("en-de", True), ("some", True), ("all", False)):
        assert (inputs(workspace, "centered", training_set) == inputs(others, "centered", training_set)) is is_same
    gates = [evaluation_sets(of, "toy", "all").content for of in (workspace, others)]
    assert gates[0] != gates[1]


def test_the_gate_content_of_heads_changes_for_mixtures_only(workspace, monkeypatch):
    names = ("en-de", MIXTURE)
    pair, mixture = (head_spec.training_data(workspace, "toy", name).content for name in names)
    monkeypatch.setattr(head_spec, "mixture_version", lambda *_: ())
    before = [head_spec.training_data(workspace, "toy", name).content for name in names]
    assert (before[0] == pair, before[1] == mixture) == (True, False)


def test_the_gate_version_changes_only_with_ranked_mixtures(load):
    def version(pairs, methods):
        text = TEXT.replace(f'pairs = ["en-de", "{MIXTURE}", "all", "some"]', f"pairs = {pairs}")
        listed = text.replace('["centered", "infonce", "lexicon", "dream", "softmax"]', methods)
        workspace = Workspace(load(listed), Path("home"))
        return next(step.version for step in steps(workspace) if step.key == training_data_key("toy"))

    assert version('["en-de", "en-es"]', '["infonce"]') == version(f'["{MIXTURE}"]', '["dream"]') == GATE_VERSION
    assert version(f'["en-de", "{MIXTURE}"]', '["dream", "infonce"]') != GATE_VERSION


def test_a_head_trained_without_slots_has_only_a_meaning_and_explains_it(workspace):
    import disent

    assert head_spec.without_mates(workspace) == [
        f"lexicon [{name}]: no training text has slots with other values to swap in, so these heads have a meaning, "
        "but no shape and no values" for name in ("en-de", MIXTURE, "all", "some")
    ]  # fmt: skip
    train(workspace, "toy", workspace.config.methods["lexicon"], "en-de")
    head = disent.open(workspace.config.path, home=workspace.home).head("lexicon", "toy", "en-de")
    assert (head.description[spec.MATES], head.embeddings) == (0, ("meaning",))
    assert list(head.encode_all([text_of("en", 0)], language="en")) == ["meaning"]
    for name in ("template", "shape", "residual", "values"):
        with pytest.raises(
            ValueError, match=r"this head has no (shape|values): .* have no slots .* Train it on a table with slots"
        ):
            head.encode([text_of("en", 0)], name, language="en")


def test_facet_and_lexicon_methods_learn_templates_from_mates(workspace):
    from disent_core import methods

    presets = {(name, preset): (methods.method(name), settings) for name in methods.METHODS
               for preset, settings in methods.method(name).presets.items()}  # fmt: skip
    known = {name for name, of_preset in presets.items() if spec.learns_from_mates(*of_preset)}
    assert {name for name, _ in known} == {"facet", "lexicon", "facet_static"}
    assert ("lexicon", "no_parallel_mates") not in known


@pytest.mark.parametrize(("recorded", "kept"), [({"mates": 0}, 1), ({"mates": 7}, 3), ({}, 3)])
def test_a_head_with_mates_or_without_record_keeps_its_embeddings(recorded, kept):
    from disent_core import methods

    assert len(spec.learned(methods.method("lexicon").embeddings, recorded)) == kept

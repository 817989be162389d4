"""Steps of a plan: what waits for what, and which of them a selection takes."""

import dagster as dg
import pytest
from toy_steps import toy_step

from disent_assets.lineage.factory import step_asset
from disent_assets.run.plan import StepRun, plan, steps_of
from disent_assets.settings.environment import open_workspace
from disent_core.lineage.partitions import Dependents
from disent_core.lineage.step import Read, Step, linked

LANGUAGES, PAIRS = ("en", "de", "ja"), ("en-de", "en-ja")
OF_PAIR = {"en": {"en-de", "en-ja"}, "de": {"en-de"}, "ja": {"en-ja"}}


def step(key: str, partitions: tuple[str, ...] | None = None, *reads: Read) -> Step:
    return toy_step(key, partitions=partitions, reads=reads)


def of(key: str, dependents: Dependents | None = None) -> Read:
    return Read(tuple(key.split("/")), dependents)


def steps(*declared: Step):
    assets = dg.Definitions(assets=[step_asset(step) for step in declared])
    return steps_of(open_workspace({"DISENT_HOME": "home"}), assets, linked(declared))


TOY = steps(
    *[
        step("corpora/utterances", LANGUAGES),
        step("targets/masked", LANGUAGES, of("corpora/utterances")),
        step("embeddings/tiny/tiny_encoder", None, of("corpora/utterances")),
        step("embeddings/tiny/tiny_vectors", LANGUAGES, of("targets/masked"), of("embeddings/tiny/tiny_encoder")),
        step("heads/tiny/dream_head", PAIRS, of("embeddings/tiny/tiny_vectors", OF_PAIR)),
        step("heads/tiny/facet_head", PAIRS, of("embeddings/tiny/tiny_vectors", OF_PAIR)),
        step("evaluation/tiny/dream_metrics", PAIRS, of("heads/tiny/dream_head")),
        step("evaluation/tiny/facet_metrics", PAIRS, of("heads/tiny/facet_head")),
        step("warehouse/database", None, of("evaluation/tiny/dream_metrics"), of("evaluation/tiny/facet_metrics")),
    ]
)


def names(steps: list[StepRun]) -> set[str]:
    return {str(step) for step in steps}


def after(selections: list[str]) -> dict[str, frozenset[str]]:
    return {str(step): step.after for step in plan(TOY, selections)}


def test_a_step_waits_for_its_input_partitions_even_through_unselected_steps():
    vectors = {f"embeddings/tiny/tiny_vectors [{language}]" for language in ("en", "ja")}
    assert after(["heads", "embeddings"])["heads/tiny/dream_head [en-ja]"] == vectors
    corpora = {f"corpora/utterances [{language}]" for language in ("en", "de", "ja")}
    assert after(["warehouse", "corpora"])["warehouse/database"] == corpora


def test_an_asset_and_the_beginning_of_names_are_selections():
    assert set(after(["heads/tiny/facet_head"])) == {"heads/tiny/facet_head [en-de]", "heads/tiny/facet_head [en-ja]"}
    assert set(after(["heads/tiny"])) == set(after(["heads"]))
    assert set(after(["+embeddings/tiny"])) == set(after(["+embeddings"]))
    with pytest.raises(ValueError, match="did you mean 'heads/tiny/facet_head'"):
        plan(TOY, ["heads/tiny/facet_heads"])
    with pytest.raises(ValueError, match="give the partition as an option: heads/tiny/facet_head --partition en-de"):
        plan(TOY, ["heads/tiny/facet_head [en-de]"])


def test_selections_are_taken_together_and_a_plus_takes_what_a_stage_is_made_from():
    assert names(plan(TOY, ["corpora", "key:warehouse/*"], None)) == {
        *(f"corpora/utterances [{language}]" for language in ("en", "de", "ja")), "warehouse/database",
    }  # fmt: skip
    assert {"corpora/utterances [ja]", "targets/masked [ja]"} <= names(plan(TOY, ["+embeddings"]))


def test_a_pair_selects_its_languages_and_the_inputs_of_its_encoder():
    assert names(plan(TOY, ["corpora", "heads"], "en-ja")) == {
        "corpora/utterances [en]", "corpora/utterances [ja]",
        "heads/tiny/dream_head [en-ja]", "heads/tiny/facet_head [en-ja]",
    }  # fmt: skip
    texts = step("targets/masked", LANGUAGES)
    metrics = step("evaluation/tiny/raw_metrics", PAIRS, of("targets/masked"))  # every language
    toy = steps(texts, metrics, step("heads/tiny/tagger_head", LANGUAGES))
    assert names(plan(toy, ["targets", "heads"], "en-de")) == {"targets/masked [en]", "targets/masked [de]"}
    assert "targets/masked [ja]" in names(plan(toy, ["+evaluation"], "en-de"))
    made = names(plan(TOY, ["+key:heads/tiny/dream_head"], "en-ja"))
    assert {"embeddings/tiny/tiny_encoder", "corpora/utterances [de]"} <= made
    assert "embeddings/tiny/tiny_vectors [de]" not in made


def test_a_named_training_set_selects_its_languages():
    metrics = step("evaluation/tiny/raw_metrics", ("some",), of("corpora/utterances"))  # every language
    toy = steps(step("corpora/utterances", LANGUAGES), metrics)
    made = names(plan(toy, ["corpora"], "some", ("en", "ja")))
    assert made == {"corpora/utterances [en]", "corpora/utterances [ja]"}


def test_the_last_part_of_a_name_suggests_the_whole():
    with pytest.raises(ValueError, match=r"did you mean 'heads/tiny/dream_head'\?\); the stages are"):
        plan(TOY, ["dream_head"])


@pytest.mark.parametrize("written", ["evalution", "+evalution"])
def test_the_error_of_a_misspelt_stage_suggests_the_closest_and_lists_all(written):
    with pytest.raises(ValueError, match=r"did you mean 'evaluation'\?\); the stages are corpora, .*warehouse"):
        plan(TOY, [written])


def test_the_error_of_an_unknown_partition_suggests_the_closest_and_lists_all():
    with pytest.raises(ValueError, match=r"did you mean 'en-ja'.*de, en, en-de, en-ja, ja"):
        plan(TOY, [], "en-jp")

"""Steps of a plan: what runs together, what waits for what, and which of them a selection takes."""

import dagster as dg
import pytest

from disent_assets.factory import dep, spec, step_asset
from disent_assets.plan import Step, plan

LANGUAGES, PAIRS = dg.StaticPartitionsDefinition(["en", "de", "ja"]), dg.StaticPartitionsDefinition(["en-de", "en-ja"])
OF_PAIR = dg.StaticPartitionMapping({"en": {"en-de", "en-ja"}, "de": "en-de", "ja": "en-ja"})


def asset(key: str, partitions: dg.PartitionsDefinition | None = None, *deps: dg.AssetDep) -> dg.AssetsDefinition:
    return step_asset([spec(key.split("/"), "Toy.", code_version="1", deps=deps)], lambda _: [], partitions=partitions)


def of(key: str, mapping: dg.PartitionMapping | None = None) -> dg.AssetDep:
    return dep(key.split("/"), mapping)


TOY = dg.Definitions(
    assets=[
        asset("corpora/utterances", LANGUAGES),
        asset("targets/masked", LANGUAGES, of("corpora/utterances")),
        asset("embeddings/tiny/tiny_encoder", None, of("corpora/utterances")),
        asset("embeddings/tiny/tiny_vectors", LANGUAGES, of("targets/masked"), of("embeddings/tiny/tiny_encoder")),
        asset("heads/tiny/dream_head", PAIRS, of("embeddings/tiny/tiny_vectors", OF_PAIR)),
        asset("heads/tiny/facet_head", PAIRS, of("embeddings/tiny/tiny_vectors", OF_PAIR)),
        asset("evaluation/tiny/dream_metrics", PAIRS, of("heads/tiny/dream_head")),
        asset("evaluation/tiny/facet_metrics", PAIRS, of("heads/tiny/facet_head")),
        asset("warehouse/database", None, of("evaluation/tiny/dream_metrics"), of("evaluation/tiny/facet_metrics")),
    ]
)


def names(steps: list[Step]) -> set[str]:
    return {str(step) for step in steps}


def test_the_texts_of_a_partition_share_a_run_and_so_do_a_head_and_its_metrics():
    together = {tuple("/".join(key.path) for key in step.keys) for step in plan(TOY)}
    assert together == {
        ("corpora/utterances", "targets/masked"),
        ("embeddings/tiny/tiny_encoder",),
        ("embeddings/tiny/tiny_vectors",),
        ("heads/tiny/dream_head", "evaluation/tiny/dream_metrics"),
        ("heads/tiny/facet_head", "evaluation/tiny/facet_metrics"),
        ("warehouse/database",),
    }


def after(selections: list[str]) -> dict[str, frozenset[str]]:
    return {str(step): step.after for step in plan(TOY, selections)}


def test_a_step_waits_only_for_the_partitions_that_it_is_made_from():
    vectors = {f"embeddings/tiny/tiny_vectors [{language}]" for language in ("en", "ja")}
    assert after(["heads", "embeddings"])["dream on tiny [en-ja]"] == vectors


def test_a_step_waits_also_by_way_of_steps_that_are_not_selected():
    corpora = {f"corpora/utterances [{language}]" for language in ("en", "de", "ja")}
    assert after(["warehouse", "corpora"])["warehouse"] == corpora


def test_several_selections_and_names_of_stages_are_taken_together():
    assert names(plan(TOY, ["corpora", "key:warehouse/*"], None)) == {
        "corpora [en]", "corpora [de]", "corpora [ja]", "warehouse",
    }  # fmt: skip


def test_a_plus_before_a_stage_takes_what_it_is_made_from():
    assert "corpora, targets [ja]" in names(plan(TOY, ["+embeddings"]))


def test_a_pair_brings_its_languages_and_no_others():
    assert names(plan(TOY, ["corpora", "heads"], "en-ja")) == {
        "corpora [en]", "corpora [ja]", "dream on tiny [en-ja]", "facet on tiny [en-ja]",
    }  # fmt: skip


def test_a_pair_brings_no_texts_that_only_its_metrics_are_made_from():
    texts, every_language = asset("targets/masked", LANGUAGES), dg.AllPartitionMapping()
    metrics = asset("evaluation/tiny/raw_metrics", PAIRS, of("targets/masked", every_language))
    toy = dg.Definitions(assets=[texts, metrics, asset("heads/tiny/tagger_head", LANGUAGES)])
    assert names(plan(toy, ["targets", "heads"], "en-de")) == {"targets [en]", "targets [de]"}
    assert "targets [ja]" in names(plan(toy, ["+evaluation"], "en-de"))


def test_a_selected_encoder_brings_all_that_it_is_pretrained_on():
    made = names(plan(TOY, ["+key:heads/tiny/dream_head"], "en-ja"))
    assert {"embeddings, tiny_encoder", "corpora, targets [de]"} <= made
    assert "embeddings/tiny/tiny_vectors [de]" not in made


@pytest.mark.parametrize("written", ["evalution", "+evalution"])
def test_a_misspelt_stage_is_told_with_the_stages_and_the_closest(written):
    with pytest.raises(ValueError, match=r"did you mean 'evaluation'\? The stages are corpora, .*warehouse"):
        plan(TOY, [written])


def test_an_unknown_partition_is_told_with_the_known_ones_and_the_closest():
    with pytest.raises(ValueError, match=r"Did you mean 'en-ja'.*de, en, en-de, en-ja, ja"):
        plan(TOY, [], "en-jp")

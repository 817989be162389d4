"""What numbers of `metrics` depend on."""

from dataclasses import replace
from pathlib import Path

from disent_core.config.load import load_config
from disent_core.lineage.evaluation_inputs import (
    CODE_VERSION,
    COMPARISONS_VERSION,
    comparisons_version,
    ranked_by,
    tasks_of,
    version,
)
from disent_core.storage.tables import fingerprint
from tools.results import ROOT, tables

QUICK = load_config(Path(__file__).parents[3] / "configs" / "massive_quick.toml")


def test_numbers_made_before_hubness_could_be_set_are_up_to_date():
    assert "hubness" not in repr(QUICK.evaluation)
    corrected = replace(QUICK, evaluation=replace(QUICK.evaluation, hubness=("none", "csls")))
    assert version(corrected) != version(QUICK)


def test_an_engine_of_held_out_retrieval_counts_only_where_that_is_measured():
    assert "heldout_search" not in repr(QUICK.evaluation)
    for tasks, is_same in ((("heldout_retrieval",), False), (("tatoeba_retrieval",), True)):
        exact = replace(QUICK, evaluation=replace(QUICK.evaluation, tasks=tasks))
        faiss = replace(exact, evaluation=replace(exact.evaluation, heldout_search="ivf"))
        assert (version(faiss) == version(exact)) is is_same


def test_numbers_made_before_seeds_were_resampled_are_up_to_date_where_only_items_are():
    assert "intervals" not in repr(QUICK.evaluation)
    items, both = (
        replace(QUICK, evaluation=replace(QUICK.evaluation, intervals=over)) for over in ("items", "seeds_and_items")
    )
    assert version(items) == fingerprint(CODE_VERSION, items.evaluation, [t.code_version for t in tasks_of(items)])
    assert version(both) == version(QUICK) != version(items)
    evaluation = items.evaluation
    before = (COMPARISONS_VERSION, ranked_by(items), evaluation.bootstrap_samples, evaluation.bootstrap_seed)
    assert comparisons_version(items) == fingerprint(*before)
    assert comparisons_version(both) != comparisons_version(items)


def test_the_configurations_of_figures_made_before_seeds_were_resampled_resample_items_as_then():
    names = ("heldout", "massive_measures", "massive_search", "massive_similarity")
    later = {"disent.toml", *(f"configs/{name}.toml" for name in names)}
    published = {table.config for table in tables(ROOT)} - later
    assert {load_config(ROOT / name).evaluation.intervals for name in published} == {"items"}

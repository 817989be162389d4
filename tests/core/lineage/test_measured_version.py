"""What numbers of `metrics` depend on."""

from dataclasses import replace
from pathlib import Path

from disent_core.config.load import load_config
from disent_core.lineage.evaluation_inputs import version

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

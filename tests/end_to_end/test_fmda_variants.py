"""Variants of FMDA from a configuration to the leaderboard: ablations, two stages, and one model of two pairs."""

import shutil

import dagster as dg
import pytest
from projects import Project, rows

pytestmark = pytest.mark.end_to_end

MIXTURE = "en-de+en-ja"
VARIANTS = """
[methods."fmda-contrast"]
method = "fmda"
without = ["contrast"]
max_epochs = 2

[methods.fmda_contrast]
method = "fmda"
contrast = "hinge"
max_epochs = 2

[methods.fmda_two_stage]
max_epochs = 2
"""


@pytest.fixture(scope="module")
def project(finished, tmp_path_factory) -> Project:
    """Heads of variants on the mixture of the pairs, over the vectors of the finished project."""
    made = finished.copy(tmp_path_factory.mktemp("variants"))
    for name in ("dagster", "heads"):
        shutil.rmtree(made.home / name)
    made.only("fmda-contrast", "fmda_contrast", "fmda_two_stage", pair=MIXTURE)
    tasks = ["crosslingual_retrieval", "template_retrieval"]
    made.configure("[evaluation]", f"[evaluation]\ntasks = {tasks}")
    made.configure("[methods.dream]", f"{VARIANTS}\n[methods.dream]")
    made.materialize()
    return made


def curve_of(project, name):
    return rows(project.home / "tables" / "heads" / "training_curve" / "tiny" / name / f"{MIXTURE}.parquet")


def test_every_fmda_variant_has_separate_weights_and_leaderboard_rows(project):
    weights = project.weights()
    assert set(weights) == {f"tiny/{name}/{MIXTURE}" for name in ("fmda-contrast", "fmda_contrast", "fmda_two_stage")}
    assert len(set(weights.values())) == 3
    assert [path for path in project.home.rglob("*stage_1*") if path.is_file()] == []
    variants = project.ask("select distinct method from main.leaderboard where embedding = 'template'")
    assert {row["method"] for row in variants} == {"fmda-contrast", "fmda_contrast", "fmda_two_stage"}


def test_one_model_of_a_mixture_is_measured_on_every_pair_and_language(project):
    for name in ("fmda-contrast", "fmda_two_stage"):
        metrics = rows(project.home / "tables" / "evaluation" / "metrics" / "tiny" / name / f"{MIXTURE}.parquet")
        measured = {(row["task"], row["evaluated_on"]) for row in metrics}
        assert {where for task, where in measured if task == "crosslingual_retrieval"} >= {
            "en-de", "de-en", "en-ja", "ja-en",
        }  # fmt: skip
        assert {where for task, where in measured if task == "template_retrieval"} == {"en", "de", "ja"}
        assert {row["trained_on"] for row in metrics} == {MIXTURE}


def test_both_stages_share_one_training_curve(project):
    curve = curve_of(project, "fmda_two_stage")
    epochs = {row["epoch"] for row in curve}
    assert epochs == {1, 2, 3, 4}
    assert {row["epoch"] for row in curve if row["term"].startswith("stage_1_")} == {1, 2}
    assert {row["epoch"] for row in curve if row["term"] == "total"} == epochs


def test_training_improved_by_its_last_epoch_counts_as_cut_short(project):
    with project.events() as events:
        checks = [event.event_specific_data for event in events.of(dg.DagsterEventType.ASSET_CHECK_EVALUATION)]
    by_name = {
        check.asset_key.path[-1].removesuffix("_head"): check
        for check in checks
        if check.check_name == "training_has_converged" and check.asset_key.path[0] == "heads"
    }
    assert set(by_name) == {"fmda-contrast", "fmda_contrast", "fmda_two_stage"}
    for name, check in by_name.items():
        curve = curve_of(project, name)
        end = max(row["epoch"] for row in curve)
        assert check.passed == (not any(row["is_best"] for row in curve if row["epoch"] == end))
    heads = project.ask("select method, converged from heads.trainings where converged is not null")
    assert {row["method"]: row["converged"] for row in heads} == {name: check.passed for name, check in by_name.items()}

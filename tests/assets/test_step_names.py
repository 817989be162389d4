"""Users may name variants of methods freely: the step of every asset still has a unique name."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from disent_assets.definitions import build
from disent_assets.lineage.factory import step_name
from disent_core.config.load import load_config
from disent_core.lineage.workspace import Workspace

VARIANTS = ("fmda", "fmda-contrast", "fmda_contrast", "fmda.contrast", "fmda-reconstruction")
CONFIG = f"""
[[corpora]]
name = "sample"
format = "massive"
path = "corpus"
languages = ["en-US", "de-DE"]

[[encoders]]
name = "small-1.0"
kind = "scratch"

[experiment]
pairs = ["en-de"]
methods = {list(VARIANTS)}

[methods."fmda-contrast"]
method = "fmda"
without = ["contrast"]

[methods.fmda_contrast]
method = "fmda"
contrast = "hinge"

[methods."fmda.contrast"]
method = "fmda"
contrast = "softmax"

[methods."fmda-reconstruction"]
method = "fmda"
without = ["reconstruction"]
"""


def test_ablations_are_methods_under_the_names_of_the_published_numbers(tmp_path: Path):
    (tmp_path / "disent.toml").write_text(CONFIG, encoding="utf-8")
    config = load_config(tmp_path / "disent.toml")
    assert config.methods["fmda-contrast"].settings.without == ("contrast",)
    assert config.methods["fmda-reconstruction"].settings.without == ("reconstruction",)


def test_variants_whose_names_differ_in_a_sign_have_separate_assets(tmp_path: Path):
    (tmp_path / "disent.toml").write_text(CONFIG, encoding="utf-8")
    definitions = build(Workspace(load_config(tmp_path / "disent.toml"), tmp_path / "home"))
    keys = {tuple(key.path) for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    for stage, what in (("heads", "head"), ("evaluation", "metrics")):
        assert {key[-1] for key in keys if key[0] == stage} >= {f"{name}_{what}" for name in VARIANTS}


def test_the_groups_of_an_encoder_have_names_that_dagster_allows(tmp_path: Path):
    (tmp_path / "disent.toml").write_text(CONFIG, encoding="utf-8")
    definitions = build(Workspace(load_config(tmp_path / "disent.toml"), tmp_path / "home"))
    groups = {spec.group_name for spec in definitions.resolve_all_asset_specs()}
    assert {"small_1_0_embeddings", "small_1_0_heads", "small_1_0_evaluation"} < groups


part = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,4}", fullmatch=True)


@given(st.lists(st.lists(part, min_size=1, max_size=3).map(tuple), min_size=2, max_size=2, unique=True))
def test_different_keys_have_steps_of_different_names(keys):
    names = {step_name(key) for key in keys}
    assert len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in names)


def test_a_plain_key_is_legible_in_the_name_of_its_step():
    assert step_name(["heads", "xlm_roberta", "fmda_head"]) == "heads__xlm_roberta__fmda_head"

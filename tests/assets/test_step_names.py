"""Users may name variants of methods freely: the step of every asset still has a unique name."""

import re

from hypothesis import given
from hypothesis import strategies as st
from worlds import corpus, encoder, experiment, section

from disent_assets.definitions import build
from disent_assets.lineage.factory import step_name
from disent_core.lineage.workspace import Workspace

VARIANTS = ("fmda", "fmda-contrast", "fmda_contrast", "fmda.contrast", "fmda-reconstruction")
CONFIG = (
    corpus("sample", path="corpus", languages=["en-US", "de-DE"])
    + encoder("small-1.0")
    + experiment(*VARIANTS)
    + section('methods."fmda-contrast"', method="fmda", without=["contrast"])
    + section("methods.fmda_contrast", method="fmda", contrast="hinge")
    + section('methods."fmda.contrast"', method="fmda", contrast="softmax")
    + section('methods."fmda-reconstruction"', method="fmda", without=["reconstruction"])
)


def test_variants_whose_names_differ_in_a_sign_have_separate_assets_in_groups_with_legal_names(load, tmp_path):
    config = load(CONFIG)
    assert config.methods["fmda-contrast"].settings.without == ("contrast",)
    definitions = build(Workspace(config, tmp_path / "home"))
    specs = definitions.resolve_all_asset_specs()
    for stage, suffix in (("heads", "head"), ("evaluation", "metrics")):
        names = {spec.key.path[-1] for spec in specs if spec.key.path[0] == stage}
        assert names >= {f"{name}_{suffix}" for name in VARIANTS}
    groups = {"embeddings_small_1_0", "heads_small_1_0", "evaluation_small_1_0"}
    assert groups < {spec.group_name for spec in specs}


part = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,4}", fullmatch=True)


@given(st.lists(st.lists(part, min_size=1, max_size=3).map(tuple), min_size=2, max_size=2, unique=True))
def test_different_keys_have_steps_of_different_names(keys):
    names = {step_name(key) for key in keys}
    assert len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in names)


def test_a_plain_key_is_legible_in_the_name_of_its_step():
    assert step_name(["heads", "xlm_roberta", "fmda_head"]) == "heads__xlm_roberta__fmda_head"

"""Adding a method is one module and one line in the registry; everything else finds it by name."""

import sys

import pytest
from click.testing import CliRunner

from disent_assets.cli import main
from disent_core import heads
from disent_core.config.load import load_config
from disent_core.errors import ConfigError

MODULE = '''
"""Signs of random projections (a method that no paper of ours has)."""

from dataclasses import dataclass

from torch import nn

from disent_core.losses import similarity
from disent_core.heads.families.frozen import FrozenHeadMethod
from disent_core.training.stacked import Head, TrainConfig


@dataclass(frozen=True, kw_only=True)
class RotationConfig(TrainConfig):
    learning_rate: float = 1e-3
    max_epochs: int = 2


class RotationHead(Head):
    """One map, trained to bring translations together."""

    def __init__(self, dim, n_languages, config):
        super().__init__()
        self.meaning = nn.Linear(dim, dim)

    def embed(self, batch):
        return {"meaning": self.meaning(batch["vectors"])}

    def forward(self, batch):
        source, target = (self.meaning(batch[f"{side}_vectors"]) for side in ("source", "target"))
        return {"parallel": similarity.cosine_distance(source, target).mean()}


METHOD = FrozenHeadMethod(
    name="rotation",
    presets={"paper": RotationConfig()},
    head=RotationHead,
    embeddings=("meaning",),
    needs=frozenset(),
)
'''


@pytest.fixture
def project(fresh, tmp_path, monkeypatch):
    """A project whose configuration names a method that is not in the library."""
    fresh.configure('["raw", "dream", "fmda", "fmda_softmax"]', '["raw", "rotation"]')
    fresh.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de"]')
    (tmp_path / "rotation_of_a_user.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield fresh
    sys.modules.pop("rotation_of_a_user", None)


@pytest.fixture
def registered(project, monkeypatch):
    monkeypatch.setitem(heads.METHODS, "rotation", "rotation_of_a_user")
    return project


def test_a_method_that_is_not_registered_is_refused_with_the_choices(project):
    with pytest.raises(ConfigError, match=r"unknown method .rotation.;.* choose one of raw, .*dream"):
        load_config(project.config)


def test_a_registered_method_is_among_the_choices(registered):
    registered.configure('"rotation"]', '"rotatoin"]')
    with pytest.raises(ConfigError, match=r"choose one of .*rotation"):
        load_config(registered.config)


def test_a_registered_method_has_assets_of_its_own(registered):
    keys = {key.to_user_string() for key in registered.definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"heads/tiny/rotation", "evaluation/tiny/rotation"} <= keys


def test_a_registered_method_reaches_the_leaderboard_of_a_run(registered):
    registered.materialize()
    result = CliRunner().invoke(main, ["leaderboard"], env=registered.environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "rotation" in result.stdout
    rows = registered.ask(
        "select seeds, embedding from main.leaderboard where method = 'rotation' and rank is not null"
    )
    assert {row["embedding"] for row in rows} == {"meaning"}
    assert {row["seeds"] for row in rows} == {2}

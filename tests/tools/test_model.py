"""`tools.model`: a model as a wheel, which `disent.load` opens by its name once it is installed."""

import sys
import zipfile
from importlib.metadata import version

import numpy as np
import pytest
from static_models import static_model

import disent
from disent_core.static_model import StaticModel
from tools.model import distance, write_wheel


@pytest.fixture
def model() -> StaticModel:
    return static_model("tiny")


def test_a_model_in_a_wheel_is_listed_and_loaded_by_its_name(model, tmp_path, monkeypatch):
    wheel = write_wheel(model, "tiny", tmp_path / "dist")
    assert wheel.name == f"disent_tiny-{version('disent-embeddings')}-py3-none-any.whl"
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    assert "tiny" not in {listed.name for listed in disent.models()}
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    listed = {model.name: model for model in disent.models()}["tiny"]
    assert listed.folder == tmp_path / "site" / "disent_tiny"
    assert listed.licence == "CC-BY-4.0"
    loaded = disent.load("tiny")
    assert isinstance(loaded, StaticModel)
    np.testing.assert_array_equal(loaded.encode(["wake me up"]), model.encode(["wake me up"]))
    assert "disent_tiny" not in sys.modules


def test_a_wheel_has_the_same_bytes_when_it_is_written_again(model, tmp_path):
    first, second = (write_wheel(model, "tiny", tmp_path / folder).read_bytes() for folder in "ab")
    assert first == second


def test_a_run_with_other_weights_says_how_far_its_vectors_and_figures_are():
    first, second = (
        static_model("tiny", table=table).described(measured_packed=[{"measure": "shape", "of": "en", "value": value}])
        for table, value in ((3, 0.5), (4, 0.52))
    )
    assert "to the bit" in distance(first, first, ["wake me up"])
    pairs = [(first.encode("wake me up", name), second.encode("wake me up", name)) for name in first.names]
    apart = max(np.abs(left - right).max() for left, right in pairs)
    expected = f"vectors of 1 texts differ by up to {apart:.1e}, figures by up to 0.020"
    assert distance(first, second, ["wake me up"]).endswith(expected)

"""What versions 0.2 and 0.3 wrote is read by this version, and gives the same.

`earlier/0.2.tar.xz` and `0.3.tar.xz` are a project whose encoder, heads, tables, index and exported folder were written
by the code of 0.2.0 and of 0.3.0, without warehouse and caches; `vectors.npy` is what that code gave for `texts.txt`.
`static` and `classifier` are of the first commits that had them, between 0.3 and 1.0.
"""

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import disent
from disent_assets.cli import main
from disent_core.errors import TrainingError
from disent_core.export.shipped_code import EARLIER_CODE

EARLIER = Path(__file__).parent / "earlier"
HEAD = "home/heads/tiny/dream/en-de.safetensors"


class Kept:
    """A project that an earlier version has written, unpacked."""

    def __init__(self, version: str, folder: Path) -> None:
        self.folder = folder
        with tarfile.open(EARLIER / f"{version}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        self.texts = (folder / "texts.txt").read_text(encoding="utf-8").splitlines()
        self.vectors = np.load(folder / "vectors.npy")

    def disent(self, *arguments: str) -> Result:
        environment = {"DISENT_CONFIG": str(self.folder / "disent.toml"), "DISENT_HOME": str(self.folder / "home")}
        return CliRunner().invoke(
            main, arguments, env={**environment, "DISENT_WORKERS": "1", "DAGSTER_HOME": None}, catch_exceptions=False
        )


@pytest.fixture(params=["0.2", "0.3"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Kept(request.param, tmp_path)


@pytest.mark.parametrize("name", [HEAD, "exported"])
def test_earlier_heads_and_exported_folders_give_unchanged_vectors(kept, name):
    assert np.allclose(disent.load(kept.folder / name).encode(kept.texts), kept.vectors, rtol=0, atol=1e-6)


def test_an_exported_folder_passes_its_check(kept):
    checked = kept.disent("check", str(kept.folder / "exported"))
    assert checked.exit_code == 0, checked.output


def test_an_index_is_searched_and_takes_more_texts(kept):
    index = disent.Index.open(kept.folder / "index")
    assert [hits[0].text for hits in index.search(kept.texts, k=1)] == kept.texts
    (kept.folder / "more.txt").write_text("spiel etwas jazz\n", encoding="utf-8")
    added = kept.disent("index", str(kept.folder / "more.txt"), str(kept.folder / "index"))
    assert "4 texts; 1 new" in added.stdout, added.output


def test_a_home_keeps_its_encoder_and_heads(kept):
    ran = kept.disent("materialize", "+heads")
    assert ran.exit_code == 0, ran.output
    assert "0 tables made" in ran.stdout
    assert "0 texts encoded, 0 steps trained" in ran.stdout


def test_an_earlier_static_model_gives_unchanged_vectors():
    model = disent.load(EARLIER / "static")
    assert np.allclose(model.encode(["wake me up", "weck mich"]), np.load(EARLIER / "static.npy"), rtol=0, atol=1e-6)


def test_a_classifier_of_the_first_format_is_refused_with_what_to_do():
    with pytest.raises(TrainingError, match=r"classifier\.json: .* format 1\. Fit and save it again$"):
        disent.Classifier.load(EARLIER / "classifier")


def test_check_knows_the_code_that_every_earlier_version_wrote():
    """After a release, `EARLIER_CODE` gets what `known_code` gives for it, or its number where the code is equal."""
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    released = {*re.findall(r"^## (\d+\.\d+)\.0", text[text.index("\n## ") + 4 :], re.MULTILINE)}
    assert {"0.2", "0.3"} <= released <= {*re.findall(r"\d+\.\d+", " ".join(EARLIER_CODE))}

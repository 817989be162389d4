"""Where downloaded corpora are stored, and which files are not replaced."""

import dagster as dg
import pytest
from worlds import corpus, encoder, experiment

from disent_assets.lineage.factory import step_asset
from disent_assets.run.steps import find_states
from disent_core.lineage.steps import DOWNLOADS, steps
from disent_core.lineage.workspace import Workspace

CONFIG = (
    corpus("table", "intents", path="real/table.csv", url="{url}", languages=["en", "de"])
    + encoder("scratch")
    + experiment()
)


@pytest.fixture
def workspace(load, tmp_path) -> Workspace:
    served = tmp_path / "served.csv"
    served.write_text("from the server", encoding="utf-8")
    return Workspace(load(CONFIG.format(url=served.as_uri())), tmp_path / "home")


def downloads_asset(workspace: Workspace) -> dg.AssetsDefinition:
    (step,) = (step for step in steps(workspace) if step.key == DOWNLOADS)
    return step_asset(step, workspace)


@pytest.mark.parametrize("existing", [None, "the user's own"])
def test_a_corpus_is_downloaded_to_its_path_unless_a_file_of_the_user_is_there(workspace, tmp_path, existing):
    (tmp_path / "real").mkdir()
    if existing:
        (tmp_path / "real/table.csv").write_text(existing, encoding="utf-8")
    assert dg.materialize([downloads_asset(workspace)]).success
    assert (tmp_path / "real/table.csv").read_text(encoding="utf-8") == (existing or "from the server")


def status_of(workspace: Workspace) -> str:
    return next(state.status for state in find_states(workspace) if state.asset == "corpora/downloads")


def test_a_user_file_at_the_corpus_path_needs_no_download(workspace, tmp_path):
    assert status_of(workspace) == "missing"
    (tmp_path / "real").mkdir()
    (tmp_path / "real/table.csv").write_text("language,intent,text\nen,play,play\nde,play,spiel\n", encoding="utf-8")
    assert status_of(workspace) == "fresh"

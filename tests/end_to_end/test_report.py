"""`disent report` writes one file about a whole run, and steps show their pictures."""

import re
import shutil

import pytest
from PIL import Image
from projects import Project, drawn_pictures

from disent_assets.lineage.metadata import INLINE
from disent_core.evaluation import TASKS

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def drawing(finished, tmp_path_factory) -> Project:
    """A copy, because t-SNE leaves pictures in the home, which other tests compare."""
    return finished.copy(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def page(drawing):
    path = drawing.home / "report.html"
    with drawn_pictures():
        result = drawing.disent("report", "--title", "Tiny & small", "--t-sne")
    assert (result.exit_code, result.stdout) == (0, f"{path}\n")
    return path.read_text(encoding="utf-8")


def test_the_report_shows_every_section_of_the_run(page, finished):
    assert "<title>Tiny &amp; small</title>" in page
    assert page.count("<section ") == 9
    tasks = {row["task"] for row in finished.ask("select distinct task from leaderboard")}
    assert tasks <= {*TASKS}
    assert all(f"<summary>{task.replace('_', ' ')} " in page for task in tasks)
    assert page.count("<svg ") > 1


def test_the_report_has_the_clouds_of_every_head_every_paper_table_and_ten_case_studies(page, finished):
    alternatives = re.findall(r'<img [^>]*alt="([^"]+)"', page)
    heads = {(method, pair) for method in ("dream", "fmda", "fmda_softmax") for pair in ("en-de", "en-ja")}
    wanted = {f"{kind} of {method} on tiny, trained on {pair}" for kind in ("t-SNE", "PCA") for method, pair in heads}
    assert {*alternatives} == wanted
    names = [row["table_name"] for row in finished.ask("select table_name from information_schema.tables")]
    tables = [name for name in names if re.fullmatch(r"[a-z]+_table\d+", name)]
    assert len(tables) > 3
    for name in tables:
        paper, number = name.split("_table")
        assert f"{paper.upper()}, table {number}" in page
    [counts] = finished.ask("select max(place) as most, count(distinct place) as places from disagreements")
    assert counts["most"] == counts["places"] <= 10
    assert page.count('class="case"') > 0


SHOWN = {
    "heads/tiny/dream_head": ("training_curve", "pca"),
    "evaluation/tiny/dream_metrics": ("scores", "seed_spread"),
    "warehouse/database": ("leaderboard", "leakage"),
}


def test_steps_show_pictures_inline_and_lost_ones_are_redrawn(copied, drawn):
    for folder in ("tiny/dream/en-de", "warehouse"):
        shutil.rmtree(copied.home / "plots" / folder)
    *of_pair, database = (f"key:{asset}" for asset in SHOWN)
    for selection in ([*of_pair, "--partition", "en-de"], [database]):
        assert copied.materialize(*selection)["made"] == 0
    with copied.events() as events:
        shown = {asset: metadata for asset, partition, metadata in events.metadata() if partition in ("en-de", None)}
    for asset, pictures in SHOWN.items():
        for name in pictures:
            form = rf"\[!\[{name}\]\(/pictures/(.+)\?v=\w+\)\]\(/pictures/(.+)\?v=\w+\)"
            linked = re.fullmatch(form, shown[asset][name])
            assert linked, name
            assert len(shown[asset][name]) < INLINE
            for file in linked.groups():
                with Image.open(copied.home / "plots" / file) as picture:
                    assert picture.width > 100
    path = copied.home / "plots" / "tiny" / "dream" / "en-de" / "pca.png"
    before = path.read_bytes()
    path.write_bytes(before[:50])
    assert copied.materialize("key:heads/tiny/dream_head")["made"] == 0
    assert path.read_bytes() == before

"""`disent report` writes one file about a whole run, and steps show their pictures."""

import re

import pytest

from disent_assets.lineage.metadata import INLINE
from disent_core.evaluation import TASKS

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def page(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    path = folder / "report.html"
    drawing = finished.copy(folder)  # t-SNE leaves pictures in the home, which other tests compare
    result = drawing.disent("report", "--output", str(path), "--title", "Tiny & small", "--t-sne")
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
    [found] = finished.ask("select max(place) as most, count(distinct place) as places from disagreements")
    assert found["most"] == found["places"] <= 10
    assert page.count('class="case"') > 0


def test_the_report_asks_nothing_of_elsewhere(page):
    assert not re.search(r"https?:|<script\s|<link|@import", re.sub(r"base64,[^\"]+", "", page))


def test_the_report_of_an_unchanged_run_is_unchanged_and_lies_beside_the_warehouse_by_default(page, copied):
    assert copied.disent("report", "--title", "Tiny & small", "--t-sne").stdout == f"{copied.home / 'report.html'}\n"
    assert (copied.home / "report.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("asset", "names"),
    [
        ("heads/tiny/dream_head", ("training_curve", "pca")),
        ("evaluation/tiny/dream_metrics", ("scores", "seed_spread")),
        ("warehouse/database", ("leaderboard", "leakage")),
    ],
)
def test_steps_show_their_pictures_without_a_click(finished, asset, names):
    with finished.events() as events:
        shown = [found for name, _, found in events.metadata() if name == asset]
    for found in shown:
        for name in names:
            linked = re.fullmatch(rf"\[!\[{name}\]\(/pictures/(.+)\?v=\w+\)\]\(/pictures/(.+)\?v=\w+\)", found[name])
            assert linked, name
            assert all((finished.home / "plots" / file).is_file() for file in linked.groups())
            assert len(found[name]) < INLINE
    assert shown


def test_a_picture_lost_by_a_killed_run_is_drawn_again(copied):
    path = copied.home / "plots" / "tiny" / "dream" / "en-de" / "pca.png"
    before = path.read_bytes()
    path.write_bytes(before[:50])
    assert copied.materialize("key:heads/tiny/dream_head")["made"] == 0
    assert path.read_bytes() == before

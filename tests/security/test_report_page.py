"""In a browser the report runs its own script and no other, even where a text has become markup."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from disent_core.report.document import RunReport, document

CHROMIUM = shutil.which("chromium")
ROWS = [
    {"paper": "p", "table": f"T{place}", "value": value} for place, value in enumerate([0.5, None, 10.0, -0.25, 2.5])
]
ATTACK = """<script>document.title = "taken"</script><img src="data:," onerror="document.title = 'taken'">
<a id="link" href="javascript:document.title='taken'">x</a>"""
CLICKS = """<script>
for (const _ of Array(TIMES)) document.querySelectorAll("#coverage th")[2].click();
</script>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


def opened(tmp_path: Path, page: str) -> str:
    """The page as it is in Chromium after its scripts have run."""
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command = [str(CHROMIUM), *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def page() -> str:
    return document(RunReport(title="untouched", facts=[], views={"coverage": ROWS}))


def test_only_the_script_of_the_report_runs_and_injected_ones_do_not(tmp_path, page):
    shown = opened(tmp_path, page.replace("<main>", f"<main>{ATTACK}"))
    assert 'tabindex="0">value' in shown
    assert "<title>untouched</title>" in shown


def test_without_the_policy_the_injected_script_runs(tmp_path, page):
    unprotected = re.sub("<meta http-equiv[^>]*>", "", page).replace("<main>", f"<main>{ATTACK}")
    assert "<title>taken</title>" in opened(tmp_path, unprotected)


@pytest.mark.parametrize(
    ("clicks", "order"),
    [(1, ["10.000", "2.500", "0.500", "-0.250", ""]), (2, ["-0.250", "0.500", "2.500", "10.000", ""])],
)
def test_a_click_sorts_numbers_as_numbers_and_empty_cells_last(tmp_path, page, clicks, order):
    unprotected = re.sub("<meta http-equiv[^>]*>", "", page)
    shown = opened(tmp_path, unprotected.replace("</body>", CLICKS.replace("TIMES", str(clicks)) + "</body>"))
    assert re.findall(r'<td class="number">([^<]*)</td></tr>', shown) == order

"""The README's table shows rows of docs/results/headline.csv."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("en-de", "template, en", "linear probe: language ↓")


def test_every_figure_of_the_readmes_table_is_in_the_results():
    with (ROOT / "docs/results/headline.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file) if row["encoder"] == "minilm_low"}
    shown = re.findall(r"^\|[^|]*\(`(\w+)`\) \|(.+)\|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert 4 <= len(shown) <= 6
    for method, figures in shown:
        assert [cell.strip() for cell in figures.split("|")] == [rows[method][name].split(" ")[0] for name in COLUMNS]

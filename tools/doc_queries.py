"""Answer the questions of docs/sql.md: each is a query, and between two comments after it stands the answer."""

import re
from dataclasses import dataclass
from pathlib import Path

from disent.query import query
from disent_assets.cli.output.tables import render
from disent_core.storage.files import write_text

SHOWN = 5
"""Rows of an answer that the page shows."""
_QUESTION = re.compile(
    r"(?P<before>^## (?P<title>[^\n]+)$(?:(?!^## ).)*?^```sql\n(?P<sql>.+?)^```\n\n<!-- answer -->\n)"
    r"(?P<answer>.*?)<!-- end -->",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Question:
    """A question, its query, and the answer as the page shows it: a Markdown table."""

    title: str
    sql: str
    answer: str


def questions(text: str) -> list[Question]:
    """Return the questions of a page."""
    return [Question(match["title"], match["sql"], match["answer"]) for match in _QUESTION.finditer(text)]


def write_answers(page: Path, warehouse: Path) -> int:
    """Write the answers of a warehouse into the page, and return their number."""

    def answered(match: re.Match[str]) -> str:
        rows = query(warehouse, match["sql"])
        more = f"\nand {len(rows) - SHOWN:,} more\n" if len(rows) > SHOWN else ""
        return f"{match['before']}\n{render(rows.slice(0, SHOWN), 'markdown')}{more}<!-- end -->"

    text, count = _QUESTION.subn(answered, page.read_text(encoding="utf-8"))
    write_text(page, text)
    return count

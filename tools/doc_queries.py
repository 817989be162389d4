"""Answer the questions in docs/sql.md: each is a query, followed by its answer between two comments."""

import re
from dataclasses import dataclass
from pathlib import Path

from disent.query import query
from disent_assets.cli.output.tables import render
from disent_core.storage.files import write_text

SHOWN = 5
"""Most rows of an answer shown on the page."""
_QUESTION = re.compile(
    r"(?P<before>^## (?P<title>[^\n]+)$(?:(?!^## ).)*?^```sql\n(?P<sql>.+?)^```\n\n<!-- answer -->\n)"
    r"(?P<answer>.*?)<!-- end -->",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Question:
    """A question, its query, and its answer on the page, a Markdown table."""

    title: str
    sql: str
    answer: str


def questions(text: str) -> list[Question]:
    """Return the questions on a page."""
    return [Question(match["title"], match["sql"], match["answer"]) for match in _QUESTION.finditer(text)]


def write_answers(page: Path, warehouse: Path) -> int:
    """Write a warehouse's answers into the page, and return their number."""

    def answered(match: re.Match[str]) -> str:
        rows = query(warehouse, match["sql"])
        more = f"\nand {len(rows) - SHOWN:,} more\n" if len(rows) > SHOWN else ""
        return f"{match['before']}\n{render(rows.slice(0, SHOWN), 'markdown')}{more}<!-- end -->"

    text, count = _QUESTION.subn(answered, page.read_text(encoding="utf-8"))
    write_text(page, text)
    return count

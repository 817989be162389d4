"""The form of the SQL files: one relation each, three header lines; `make lint` lints them."""

import re
from pathlib import Path

from disent_assets.warehouse.sql_files import published_tables, references, relations
from disent_core.storage.tables import SCHEMAS

ROOT = Path(__file__).parents[2]
SQL = ROOT / "sql"
PUBLISHED = published_tables(SQL / "published")
TEXTS = {str(path.relative_to(SQL)): path.read_text() for path in sorted(SQL.rglob("*.sql"))}
PAPERS = {name: relation.sql for name, relation in relations(SQL, PUBLISHED).items() if re.search(r"_table\d+$", name)}
"""Queries by their files; queries made from the template by the names of their views."""

QUERIES = TEXTS | PAPERS


def test_every_query_opens_with_its_grain_just_what_it_reads_and_units():
    for name, text in QUERIES.items():
        lines = text.splitlines()[:3]
        assert [line.split(": ")[0] for line in lines] == ["-- grain", "-- reads", "-- units"], name
        assert all(line.split(": ")[1].strip() for line in lines), name
        assert set(re.findall(r"\b[a-z]+\.[a-z_0-9]+\b", lines[1])) == references(text), name


def test_the_template_is_filled_in_for_every_paper_table_that_has_columns():
    assert len(PAPERS) == sum(row["labels"] is not None for row in PUBLISHED["paper_tables"].to_pylist()) == 27
    assert [name for name, text in PAPERS.items() if "$" in text] == []


def test_every_table_of_values_is_described_beside_it():
    readme = (SQL / "published/README.md").read_text()
    assert [name for name in PUBLISHED if name != "published_metrics" and f"\n| `{name}.csv` | " not in readme] == []


def test_loaded_tables_have_the_columns_of_their_schema_in_order(published):
    loaded = ["corpora.utterances", "negatives.negative_pool", "targets.masked_utterances",
              "targets.template_pairs", "heads.training_curve", "evaluation.rankings"]  # fmt: skip
    expected = {name: SCHEMAS[name.split(".")[1]].names for name in loaded}
    expected["evaluation.measurements"] = SCHEMAS["metrics"].names
    expected["main.published_metrics"] = [*SCHEMAS["metrics"].names, "paper", "table", "note"]
    for relation, names in expected.items():
        described = published.rows(f"select column_name from (describe {relation})")
        assert [name for (name,) in described] == names

"""The table of exported folders in docs/use.md has every method, with the routes that its code writes."""

import re

import pytest
from random_heads import SEEDS

from disent_core import methods
from disent_core.errors import TrainingError
from disent_core.export.encoder import exported_encoder
from disent_core.export.folder import TOLERANCE, export_head
from disent_core.export.routes import routes_of
from disent_core.lineage.saved_heads import open_head
from tools import equality

pytest.importorskip("sentence_transformers")


def page() -> dict[str, list[str]]:
    """The cells of each row after the name of its method."""
    table = equality.PAGE.read_text(encoding="utf-8").partition(equality.BEGIN)[2].partition(equality.END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    assert tuple(f"| {' | '.join(cells)} |" for cells in rows[:2]) == equality.HEAD
    return {cells[0]: cells[1:] for cells in rows[2:]}


PAGE = page()


def figures(cell: str) -> dict[str, float]:
    return {name: float(value) for name, value in (part.split() for part in cell.split(", "))}


def test_every_method_has_rows_on_the_equality_page():
    assert list(PAGE) == [*equality.ROWS, *equality.WITHOUT_FILE]
    assert {re.split("[ ,]", name)[0] for name in PAGE} == set(methods.METHODS)


@pytest.mark.parametrize("name", [name for name in equality.ROWS if PAGE[name][1]])
def test_a_row_has_the_routes_of_the_code_within_the_export_tolerance(name, tmp_path):
    head = open_head(equality.ROWS[name](tmp_path), device="cpu")
    cell, by, graph, loaded = PAGE[name]
    if head.method.labels:
        routes, kind = ["logits"], "transformers"
    else:
        seed = SEEDS[0] if head.method.is_seeded else None
        chosen = routes_of(head, seed, exported_encoder(head, seed).pooled).chosen(None)
        routes, kind = list(chosen.steps), "the shipped module" if chosen.needs_code else "sentence-transformers"
    assert (list(figures(cell)), list(figures(graph)), by, loaded) == (routes, routes, kind, "0")
    assert max(*figures(cell).values(), *figures(graph).values()) <= TOLERANCE


@pytest.mark.parametrize("name", [name for name in equality.ROWS if not PAGE[name][1]])
def test_a_row_without_figures_is_refused_by_the_code_for_that_reason(name, tmp_path):
    head = open_head(equality.ROWS[name](tmp_path), device="cpu")
    with pytest.raises(TrainingError) as error:
        export_head(head, tmp_path / "out", seed=SEEDS[0] if head.method.is_seeded else None)
    assert equality.refused(name, str(error.value)) == f"| {name} | {PAGE[name][0]} | | | |"

"""The notebook of the tutorials shows what its cells print."""

import json

from tools.notebook import NOTEBOOK, executed


def test_the_cells_of_the_notebook_print_what_it_shows():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert sum(bool(cell.get("outputs")) for cell in notebook["cells"]) >= 5
    assert executed(notebook) == notebook

"""Execute a notebook's cells and write their outputs into it: `python -m tools.notebook NOTEBOOK`.

Cells run in one namespace without a Jupyter kernel, which keeps Jupyter out of the tests' lock. An output is what a
cell prints, and the `repr` of its last expression.
"""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTEBOOK = DOCS / "tutorials" / "first_minute.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [
        _executed_cell(cell, namespace, count) if cell["cell_type"] == "code" else cell
        for count, cell in enumerate(notebook["cells"], 1)
    ]
    return notebook | {"cells": cells}


def _executed_cell(cell: dict[str, Any], namespace: dict[str, Any], count: int) -> dict[str, Any]:
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"<cell {count}>", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), f"<cell {count}>", "eval"), namespace) if last else None
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return cell | {"execution_count": count, "outputs": outputs}


def main() -> None:
    """Execute the named notebooks; by default, the tutorials' notebook."""
    for path in map(Path, sys.argv[1:] or [str(NOTEBOOK)]):
        notebook = executed(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

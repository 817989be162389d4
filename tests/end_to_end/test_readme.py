"""The Python of the README gives what stands beside it, by the model that disent comes with."""

import re
from ast import literal_eval

import pytest


def test_the_readmes_python_gives_the_figures_that_stand_beside_it(root):
    (code,) = re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, object] = {}
    shown = 0
    for line in code.splitlines():
        if figures := re.search(r"  # (\[\[.*?\]\])", line):
            assert eval(line, names)[0].tolist() == pytest.approx(literal_eval(figures[1])[0], abs=0.005)
            shown += 1
        else:
            exec(line, names)
    assert shown == 2

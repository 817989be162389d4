"""The Python of the README runs as it stands there, on a run of the tests."""

import re

import numpy as np
import polars as pl
import pytest

pytestmark = pytest.mark.end_to_end


def test_the_readmes_python_runs(root, finished, monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    code = code.replace("scratch/facet/", "tiny/dream/")  # what this run has
    monkeypatch.chdir(finished.folder)
    monkeypatch.setenv("DISENT_HOME", str(finished.home))
    names: dict[str, object] = {}
    lines = code.splitlines()
    answers = [eval(line, names) for line in lines[-3:] if not exec("\n".join(lines[:-3]), names)]
    meaning, metrics, leaderboard = answers
    assert isinstance(meaning, np.ndarray)
    assert (meaning.dtype, len(meaning)) == (np.float32, 1)
    assert isinstance(metrics, pl.DataFrame)
    assert isinstance(leaderboard, pl.DataFrame)
    assert len(metrics) > len(leaderboard) > 0

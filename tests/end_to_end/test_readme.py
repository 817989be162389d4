"""The Python of the README runs as it stands there, on a run of the tests."""

import re

import numpy as np
import pytest

pytestmark = pytest.mark.end_to_end


def test_the_readmes_python_runs(root, finished, monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    code = code.replace("scratch/facet/", "tiny/dream/")  # what this run has
    monkeypatch.chdir(finished.folder)
    monkeypatch.setenv("DISENT_HOME", str(finished.home))
    names: dict[str, object] = {}
    *lines, last = code.splitlines()
    exec("\n".join(lines), names)
    meanings, similarities = names["meanings"], eval(last, names)
    assert isinstance(meanings, np.ndarray)
    assert (meanings.dtype, len(meanings), similarities.shape) == (np.float32, 3, (1, 3))

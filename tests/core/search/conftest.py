"""Files are not flushed to disk: an index has many, and a test none to lose."""

import pytest

from disent_core.storage import files


@pytest.fixture(autouse=True)
def unflushed(monkeypatch):
    monkeypatch.setattr(files, "flush", lambda path: None)

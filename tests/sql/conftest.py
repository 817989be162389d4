"""Fixtures of small warehouses."""

import shutil
from pathlib import Path

import pytest
from made_warehouses import SQL, Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse in which nothing was measured."""
    warehouse = Warehouse(tmp_path_factory.mktemp("published"))
    warehouse.build()
    return warehouse


@pytest.fixture
def sql_copy(tmp_path: Path) -> Path:
    """The project's SQL, to be changed."""
    return shutil.copytree(SQL, tmp_path / "sql")

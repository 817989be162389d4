"""Fixtures of small warehouses."""

import shutil
from pathlib import Path

import pytest
from made_warehouses import SQL, Warehouse, sql_of


@pytest.fixture
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    """A warehouse of the relations that the module names in `RELATIONS` and of what they read, or of all."""
    names = getattr(request.module, "RELATIONS", ())
    return Warehouse(tmp_path, sql_of(*names) if names else SQL)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse in which nothing was measured."""
    warehouse = Warehouse(tmp_path_factory.mktemp("published"))
    warehouse.build()
    return warehouse


@pytest.fixture
def sql_copy(warehouse: Warehouse, tmp_path: Path) -> Path:
    """The SQL of the warehouse, to be changed."""
    return shutil.copytree(warehouse.sql_root, tmp_path / "sql")

"""A refresh of the warehouse decides which tables are views over their files, and keeps these files."""

import shutil
from pathlib import Path

import pytest
from worlds import TOY, utterance

from disent.query import files_folder, query
from disent_assets.run import steps
from disent_assets.warehouse import refresh as module
from disent_assets.warehouse.build import INPUTS
from disent_assets.warehouse.refresh import CODE_VERSION, refresh_warehouse
from disent_assets.warehouse.sql_files import sql_hash
from disent_core.lineage.steps import DATABASE
from disent_core.lineage.tables import stored_tables
from disent_core.lineage.workspace import Workspace
from disent_core.storage.tables import SCHEMAS, content_of, fingerprint, rows_table, write_table


@pytest.fixture(autouse=True)
def few(tmp_path, monkeypatch) -> Path:
    """One relation: all of them take seconds."""
    root = tmp_path / "sql"
    for name in ("tables/corpora", "published", "checks"):
        (root / name).mkdir(parents=True)
    shutil.copy(module.SQL / "tables/corpora/utterances.sql", root / "tables/corpora")
    shutil.copy(module.SQL / "columns.csv", root)
    monkeypatch.setattr(module, "SQL", root)
    return root


@pytest.fixture
def opened(load, tmp_path):
    """Open the folder of results with a bound of this many rows, or the default."""

    def open_with(bound: int | None = None) -> Workspace:
        section = "" if bound is None else f"[warehouse]\ncopy_rows_below = {bound}\n"
        return Workspace(load(TOY + section), tmp_path / "home")

    write_utterances(open_with(), "12")
    return open_with


def write_utterances(workspace: Workspace, ids: str) -> None:
    rows = [utterance("en", name, "wake me up", corpus="one") for name in ids]
    path = workspace.table("corpora", "utterances", "one", "en")
    write_table(path, rows_table(rows, "utterances"), SCHEMAS["utterances"], inputs=ids)


def kept(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in files_folder(workspace.warehouse).glob("*"))


@pytest.mark.parametrize(("bound", "files"), [(2, 1), (3, 0), (None, 0)])
def test_a_table_above_the_row_bound_becomes_a_view(opened, bound, files):
    workspace = opened(bound)
    refresh_warehouse(workspace)
    assert len(kept(workspace)) == files
    assert query(workspace.warehouse, "from utterances").num_rows == 2


def test_a_home_in_a_bucket_has_no_views(opened, monkeypatch):
    monkeypatch.setattr(module, "remote_of", lambda _: "a bucket")
    refresh_warehouse(opened(0))
    assert kept(opened(0)) == []


def test_a_warehouse_without_views_is_that_of_earlier_versions(opened, few):
    workspace = opened()
    contents = {name: [content_of(path) for path in paths] for name, paths in stored_tables(workspace).items()}
    refreshed = refresh_warehouse(workspace)
    contents |= {name: [content_of(path) for path in paths] for name, paths in stored_tables(workspace).items()}
    of_inputs = {name: contents[name] for name in INPUTS if name in contents}
    assert refreshed.content == fingerprint(CODE_VERSION, of_inputs, sql_hash(few))


def test_an_edited_view_changes_the_version_of_the_step(opened, few):
    def version() -> str:
        return next(step.version for step in steps.steps_in(opened()) if step.key == DATABASE)

    before = version()
    assert version() == before
    with (few / "tables/corpora/utterances.sql").open("a", encoding="utf-8") as file:
        file.write("-- edited\n")
    assert version() != before


def test_the_bound_rebuilds_only_what_it_changes(opened):
    results = [refresh_warehouse(opened(bound)) for bound in (None, 1_000_000, 2, 2, None)]
    assert [result.is_reused for result in results] == [False, True, False, True, False]


def test_a_damaged_file_of_a_view_is_replaced_by_the_next_refresh(opened):
    workspace = opened(2)
    refresh_warehouse(workspace)
    (name,) = kept(workspace)
    (files_folder(workspace.warehouse) / name).unlink()
    assert not refresh_warehouse(workspace).is_reused
    assert query(workspace.warehouse, "from utterances").num_rows == 2
    assert refresh_warehouse(workspace).is_reused


def test_files_of_the_previous_warehouse_stay_for_open_readers(opened):
    workspace, seen = opened(1), []
    for ids in ("1", "12", "123"):
        write_utterances(workspace, ids)
        refresh_warehouse(workspace)
        seen.append(set(kept(workspace)))
    assert [len(names) for names in seen] == [1, 2, 2]
    assert seen[0] < seen[1]
    assert not seen[0] & seen[2]

"""What is published for others is whole, has no views, and no texts of corpora unless they are asked for."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from made_warehouses import Warehouse

from disent_assets.warehouse import build as module
from disent_assets.warehouse.build import PUBLISHED_FILE, publish

RELATIONS = ("leaderboard", "case_studies", "catalogue", "corpora.utterances")


@pytest.fixture
def built(warehouse: Warehouse) -> Warehouse:
    warehouse.build(metrics=[{}, {"seed": 0}], rankings=[{}], utterances=[{}])
    return warehouse


def test_published_relations_are_parquet_files_and_tables_with_equal_rows(built, tmp_path):
    rows = publish(built.path, tmp_path / "shared")
    of_warehouse = {name: count for name, count in built.report.rows.items() if name.startswith(("main.", "papers."))}
    assert rows == {name: count for name, count in of_warehouse.items() if name != "main.case_studies"}
    assert {path.stem for path in (tmp_path / "shared").glob("*.parquet")} == {name[5:] for name in rows}
    expected = pl.DataFrame(built.ask("from leaderboard"))
    assert (
        pl.read_parquet(tmp_path / "shared" / "leaderboard.parquet").select(expected.columns).rows() == expected.rows()
    )
    assert pd.read_parquet(tmp_path / "shared" / "leaderboard.parquet").shape == expected.shape
    with duckdb.connect(str(tmp_path / "shared" / PUBLISHED_FILE), read_only=True) as connection:
        assert connection.sql("select count(*) from duckdb_views() where not internal").fetchall() == [(0,)]
        commented = "select comment from duckdb_tables() where table_name = 'leaderboard'"
        ((comment,),) = connection.sql(commented).fetchall()
        assert comment.startswith("A row is one number of one method")
        assert connection.sql("from leaderboard").fetchall() == expected.rows()


def test_texts_of_corpora_are_published_only_if_asked_for(built, tmp_path):
    publish(built.path, tmp_path / "shared", texts=True)
    assert pq.read_table(tmp_path / "shared" / "case_studies.parquet")["query_text"].to_pylist() == ["wake me up"]
    publish(built.path, tmp_path / "shared")
    assert not (tmp_path / "shared" / "case_studies.parquet").exists()


def test_an_error_leaves_the_last_folder_and_no_other(built, tmp_path, monkeypatch):
    publish(built.path, tmp_path / "shared")
    before = {path.name: path.read_bytes() for path in (tmp_path / "shared").iterdir()}

    def fail(*_):
        raise RuntimeError("stopped")

    monkeypatch.setattr(module, "_copy_comments", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        publish(built.path, tmp_path / "shared")
    assert {path.name: path.read_bytes() for path in (tmp_path / "shared").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".shared")] == []


def test_a_folder_with_other_files_is_refused(built, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(ValueError, match="mine has other files"):
        publish(built.path, tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"

"""The history of metrics: what a refresh adds to it, and what its files survive."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import METRIC, TOY

from disent_core.lineage import history as tested
from disent_core.lineage.history import append, events, history_files, new_rows, read_history
from disent_core.lineage.items_before import UNKNOWN
from disent_core.lineage.workspace import Workspace
from disent_core.storage.tables import SCHEMAS, rows_table, write_table

NOW = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def workspace(load, tmp_path) -> Workspace:
    return Workspace(load(TOY), tmp_path / "home")


def metrics(*rows: dict) -> pa.Table:
    return rows_table([{**METRIC, **row} for row in rows], "metrics")


def refresh(workspace: Workspace, *rows: dict) -> list[dict]:
    added = new_rows(workspace, read_history(workspace), metrics(*rows), recorded_at=NOW, run_id="run")
    append(workspace, added, inputs="i")
    return added.to_pylist()


def recorded(workspace: Workspace) -> list[tuple]:
    rows = read_history(workspace).rows.to_pylist()
    return [(row["refresh"], row["event"], row["method"], row["value"]) for row in rows]


NUMBERS = st.fixed_dictionaries(
    {
        "value": st.sampled_from([0.1, 0.2, float("nan")]),
        "ci_low": st.sampled_from([None, 0.05]),
        "n": st.sampled_from([10, 11]),
        "fingerprint": st.sampled_from(["f", "g"]),
        "pool_size": st.sampled_from([10, 11]),
        "created_at": st.sampled_from([0, 1]),
    }
)
NAMES = st.tuples(st.sampled_from(["raw", "dream"]), st.sampled_from([None, 0]), st.sampled_from(["mean", "z_mean"]))
REFRESHES = st.lists(st.dictionaries(NAMES, NUMBERS, max_size=6), max_size=6)


def rows_of_refresh(numbers: dict) -> pa.Table:
    return metrics(
        *(
            {
                "method": method,
                "seed": seed,
                **{name: value for name, value in number.items() if name != "pool_size"},
                "settings": json.dumps({"gold": gold, "pool_size": number["pool_size"]}),
            }
            for (method, seed, gold), number in numbers.items()
        )
    )


def twin(refreshes: list[dict]) -> list[tuple]:
    last: dict = {}
    history = []
    for number, numbers in enumerate(refreshes):
        for name in {**last, **numbers}:
            now, before = numbers.get(name), last.get(name)
            if now is None:
                history.append((number, name, "ended", None))
                del last[name]
                continue
            if before is None:
                event = "new"
            elif any(repr(now[part]) != repr(before[part]) for part in ("value", "ci_low", "n")):
                event = "changed"
            elif any(now[part] != before[part] for part in ("fingerprint", "pool_size")):
                event = "confirmed"
            else:
                continue
            history.append((number, name, event, repr(now["value"])))
            last[name] = now
    return sorted(history, key=repr)


@given(REFRESHES)
def test_the_history_of_any_refreshes_is_that_of_loops(refreshes):
    rows = pl.DataFrame(SCHEMAS["metric_history"].empty_table())
    history = []
    for number, numbers in enumerate(refreshes):
        added = events(rows, pl.DataFrame(rows_of_refresh(numbers)))
        rows = pl.concat([rows.select(added.columns), added])
        for row in added.to_dicts():
            name = (row["method"], row["seed"], json.loads(row["problem"])["gold"])
            history.append((number, name, row["event"], None if row["value"] is None else repr(row["value"])))
    assert sorted(history, key=repr) == twin(refreshes)


def test_a_refresh_in_which_nothing_changed_writes_no_file(workspace):
    refresh(workspace, {})
    assert refresh(workspace, {"created_at": NOW}) == []
    assert [file.path.name for file in history_files(workspace)] == ["000001-000001.parquet"]


def test_numbers_with_different_pool_sizes_are_distinct(workspace):
    two = [{"settings": json.dumps({"pool_size": size}), "value": size / 100} for size in (10, 20)]
    assert [row["problem"] for row in refresh(workspace, *two)] == ["{}", "{} #2"]
    assert refresh(workspace, *reversed(two)) == []


def test_rows_of_an_unconfigured_method_have_no_origin(workspace):
    (row,) = refresh(workspace, {})
    assert {row[part] for part in ("code", "data", "weights", "vectors")} == {None}
    assert (row["run_id"], row["config"], row["recorded_at"]) == ("run", "disent.toml", NOW)


def test_merging_history_files_keeps_the_rows(workspace, monkeypatch):
    monkeypatch.setattr(tested, "MERGED_FILES", 3)
    for number in range(8):
        refresh(workspace, {"value": number / 10})
    names = [file.path.name for file in history_files(workspace)]
    assert names == ["000001-000003.parquet", "000004-000006.parquet", "000007-000007.parquet", "000008-000008.parquet"]
    folder = history_files(workspace)[0].path.parent
    assert sorted(path.name for path in folder.glob("*.parquet")) == names
    assert recorded(workspace) == [
        (number + 1, "changed" if number else "new", "gone", number / 10) for number in range(8)
    ]


def test_history_files_without_newer_columns_are_read_and_merged(workspace, monkeypatch):
    monkeypatch.setattr(tested, "MERGED_FILES", 3)
    refresh(workspace, {"value": 0.0})
    path = history_files(workspace)[0].path
    rows = read_history(workspace).rows.drop_columns(["began_at", "p_value", "test"])
    write_table(path, rows, rows.schema, inputs="i")
    for number in range(1, 3):
        refresh(workspace, {"value": number / 10})
    assert [file.path.name for file in history_files(workspace)] == ["000001-000003.parquet"]
    assert read_history(workspace).rows["began_at"].to_pylist() == [None] * 3
    assert read_history(workspace).rows["test"].to_pylist() == [None, UNKNOWN, UNKNOWN]
    assert [value for *_, value in recorded(workspace)] == [0.0, 0.1, 0.2]


class Killed(BaseException):
    """Stands for SIGKILL: from then on no file can be changed, so nothing is cleaned up."""


def killed_at(step: int, run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run something that is killed before its so many-th change of a file; whether it lived so long."""
    left = [step]

    def ending(change: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return change(*arguments, **options)

        return counted

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "fsync"):
            patch.setattr(os, name, ending(getattr(os, name)))
        try:
            run()
        except Killed:
            return True
    return False


@pytest.mark.parametrize(("refreshes", "least"), [(1, 6), (2, 14)])
def test_a_kill_at_any_place_leaves_the_history_exact(workspace, tmp_path, monkeypatch, refreshes, least):
    monkeypatch.setattr(tested, "MERGED_FILES", 2)
    for number in range(refreshes - 1):
        refresh(workspace, {"value": number / 10})
    before, new = recorded(workspace), (refreshes, "changed" if refreshes > 1 else "new", "gone", 0.9)
    step = -1
    for step in count():
        folder = tmp_path / str(step)
        if workspace.home.exists():
            shutil.copytree(workspace.home, folder)
        killed = replace(workspace, home=folder)
        if not killed_at(step, partial(refresh, killed, {"value": 0.9}), monkeypatch):
            break
        assert recorded(killed) in (before, [*before, new]), step
        refresh(killed, {"value": 0.9})
        assert recorded(killed) == [*before, new], step
    assert step >= least  # the last of them merges files


def test_a_damaged_history_file_is_logged_and_its_numbers_rerecorded(workspace, caplog):
    refresh(workspace, {"value": 0.1}, {"method": "other"})
    refresh(workspace, {"value": 0.2}, {"method": "other"})
    path = history_files(workspace)[1].path
    path.write_bytes(path.read_bytes()[:-1])
    history = read_history(workspace)
    assert (history.rows.num_rows, history.damaged) == (2, 1)
    assert "000002-000002.parquet.damaged. Its rows can't be made again: put the file back" in caplog.text
    refresh(workspace, {"value": 0.2}, {"method": "other"})
    assert recorded(workspace)[2:] == [(3, "changed", "gone", 0.2)]


def test_a_restored_history_file_counts_again(workspace, monkeypatch):
    monkeypatch.setattr(tested, "MERGED_FILES", 3)
    refresh(workspace, {"value": 0.1})
    path = history_files(workspace)[0].path
    backup = path.read_bytes()
    path.write_bytes(backup[:-1])
    for number in range(2, 6):
        refresh(workspace, {"value": number / 10})
    assert len(history_files(workspace)) == 4  # nothing is merged over the gap
    path.write_bytes(backup)
    path.with_name(f"{path.name}.damaged").unlink()
    refresh(workspace, {"value": 0.6})
    assert [row[0] for row in recorded(workspace)] == [1, 2, 3, 4, 5, 6]

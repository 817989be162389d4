"""The pool of negatives in shards: the files of one shard to the byte, also after a kill."""

import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from corpus_rows import write_utterances
from worlds import corpus, encoder, experiment

from disent_core.lineage.negatives import refresh_pool
from disent_core.lineage.workspace import POOL, Workspace
from disent_core.negatives import nearest
from disent_core.shards.backend import ShardBackend

TEXT = corpus("toy", languages=["en-US"]) + encoder("small") + experiment(pairs=["en"])
KILLED_IN_ITS_THIRD_SHARD = """
    import os, pathlib, signal, sys
    from disent_core.config.load import load_config
    from disent_core.lineage.negatives import refresh_pool
    from disent_core.lineage.workspace import Workspace
    from disent_core.negatives import nearest, search
    from disent_core.shards.backend import ShardBackend

    def run(self, rows, targets, run=search.Search.run, done=[]):
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(rows)
        run(self, rows, targets)

    nearest.ROWS_OF_SHARD, search.Search.run = 5, run
    folder = pathlib.Path(sys.argv[1])
    one = ShardBackend("processes", 1)
    refresh_pool(Workspace(load_config(folder / "disent.toml"), folder / "home", shard_backend=one), "en")
"""


@pytest.fixture
def workspace(load, tmp_path):
    world = Workspace(load(TEXT), tmp_path / "home")
    rows = [(f"{i:02}", "train", f"{'abcdefg'[i % 7]} b c d e {i // 5}") for i in range(23)]
    write_utterances(world, "toy", "en", rows)
    return world


def files(workspace):
    folder = workspace.tables / "negatives"
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("en.parquet*")}


def made_in_one_shard(workspace):
    refresh_pool(workspace, "en")
    expected = files(workspace)
    for path in (workspace.tables / "negatives").rglob("en.parquet*"):
        path.unlink()
    return expected


def test_shards_give_the_files_of_one_shard_and_leave_nothing(workspace, monkeypatch):
    expected = made_in_one_shard(workspace)
    monkeypatch.setattr(nearest, "ROWS_OF_SHARD", 5)
    refresh_pool(replace(workspace, shard_backend=ShardBackend("processes", 2)), "en")
    assert files(workspace) == expected
    assert not [path for path in (workspace.home / "shards").rglob("*") if path.is_file()]


def test_a_killed_step_leaves_no_table_and_resumes_from_its_finished_shards(workspace, monkeypatch):
    expected = made_in_one_shard(workspace)
    script = textwrap.dedent(KILLED_IN_ITS_THIRD_SHARD)
    command = [sys.executable, "-c", script, str(workspace.home.parent)]
    assert subprocess.run(command, check=False).returncode == -9
    kept = sorted(path.name for path in workspace.shards("negatives", "toy", "en").rglob("*.safetensors"))
    assert kept == ["0-5.safetensors", "5-10.safetensors"]
    assert not workspace.table(*POOL, "toy", "en").exists()
    monkeypatch.setattr(nearest, "ROWS_OF_SHARD", 5)
    compared = []
    run = nearest.Search.run
    monkeypatch.setattr(nearest.Search, "run", lambda *args: [compared.append(len(args[1])), run(*args)])
    refresh_pool(replace(workspace, shard_backend=ShardBackend("processes", 1)), "en")
    assert compared == [5, 5, 3]
    assert files(workspace) == expected

"""Shards here and in processes: equal results, in order, whatever is killed."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from shard_work import Counting, KilledOnce, broken, killed, process, refused, square

from disent_core.errors import EncoderError, ShardError
from disent_core.shards.backend import ShardBackend, map_kept, map_shards, ranges, sharded
from disent_core.shards.on_ray import on_ray
from disent_core.shards.processes import in_processes

HERE, TWO, ONE_BY_ONE = ShardBackend(), ShardBackend("processes", 2), ShardBackend("processes", 1)
RAY = ShardBackend("ray")
SHARDS = [range(0, 2), range(2, 4), range(4, 5)]


def kept(work, folder, inputs="a"):
    with sharded(ONE_BY_ONE, folder, inputs):
        return np.concatenate([arrays["squares"] for arrays in map_kept(work, SHARDS, "squares")])


@pytest.mark.parametrize(
    ("backend", "items", "expected"),
    [(HERE, 100, 1), (TWO, 100, 20), (RAY, 100, 20), (TWO, 13, 3), (TWO, 9, 1), (RAY, 99, 1)],
)
def test_shard_ranges_cover_each_item_once(backend, items, expected):
    with sharded(backend):
        parts = ranges(items, 5)
    assert len(parts) == expected
    assert [item for some in parts for item in some] == list(range(items))


def test_processes_give_results_in_the_order_of_shards_though_one_is_killed(tmp_path):
    assert [*in_processes(KilledOnce(tmp_path / "killed"), range(6), 2)] == [square(number) for number in range(6)]
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize(("backend", "is_here"), [(HERE, True), (ONE_BY_ONE, True), (TWO, False)])
def test_only_several_workers_use_other_processes(backend, is_here):
    with sharded(backend):
        assert (os.getpid() in {*map_shards(process, range(4))}) == is_here


def test_shard_errors_name_the_signal_the_data_error_or_one_traceback(capfd):
    with pytest.raises(ShardError, match=r"shard \d was lost 3 times, its process ended by SIGKILL"):
        [*in_processes(killed, range(2), 2)]
    with pytest.raises(EncoderError, match=r"^text \d can't be encoded$"):
        [*in_processes(refused, range(2), 2)]
    with pytest.raises(ShardError, match="ended with exit code 1; see its error above"):
        [*in_processes(broken, range(2), 1)]
    assert capfd.readouterr().err.count("Traceback") == 1


def test_processes_end_with_a_driver_that_is_killed(tmp_path):
    script = """
        import os, signal, sys
        from shard_work import process
        from disent_core.shards.processes import in_processes

        if __name__ == "__main__":
            print(next(in_processes(process, range(3), 2)), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    path = tmp_path / "driver.py"
    path.write_text(textwrap.dedent(script))
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    # The worker has the driver's output too: it is read to its end only when the worker has ended.
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, path]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    with pytest.raises(ProcessLookupError):
        os.kill(int(run.stdout), 0)


def test_the_error_without_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ShardError, match=r"pip install 'disent-embeddings\[ray\]'"):
        [*on_ray(square, range(2))]


@pytest.mark.parametrize(
    ("change", "computed"),
    [("", [0, 2, 4]), ("inputs", [0, 0, 2, 2, 4]), ("a flipped bit", [0, 2, 2, 4])],
    ids=["unchanged", "other inputs", "a flipped bit"],
)
def test_a_resumed_step_recomputes_only_missing_outdated_or_damaged_shards(tmp_path, change, computed):
    work = Counting(tmp_path / "log", fails_at=4)
    with pytest.raises(EncoderError):
        kept(work, tmp_path / "shards")
    work.fails_at = -1
    if change == "a flipped bit":
        file = tmp_path / "shards" / "squares" / "2-4.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert kept(work, tmp_path / "shards", "b" if change == "inputs" else "a").tolist() == [0, 1, 4, 9, 16]
    assert work.computed() == computed


def test_finished_and_single_shard_steps_keep_no_shard_files(tmp_path):
    kept(Counting(tmp_path / "log"), tmp_path / "shards")
    assert not (tmp_path / "shards").exists()
    with sharded(TWO, tmp_path / "shards", "a"):
        [*map_kept(Counting(tmp_path / "log"), [range(5)], "squares")]
        assert not (tmp_path / "shards").exists()

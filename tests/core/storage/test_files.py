"""Files are written atomically, and locked by one process at a time."""

import errno
import fcntl
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disent_core.errors import StorageError
from disent_core.storage import files
from disent_core.storage.files import atomic_path, locked, write_text
from disent_core.storage.results import write_result


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_or_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path):
    def fail():
        with atomic_path(tmp_path / "folder") as temporary:
            temporary.mkdir()
            (temporary / "part").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(tmp_path) == []
    path = tmp_path / "file"
    write_text(path, "old")

    def fail():
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("something is wrong")

    with pytest.raises(RuntimeError, match="something is wrong"):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_file_that_a_library_keeps_for_its_maker_gets_the_permissions_of_every_other_file(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_path(tmp_path / "folder") as temporary:
        (temporary / "weights").mkdir(parents=True)
        (temporary / "weights" / "model").touch(0o600)
    with atomic_path(tmp_path / "file") as temporary:
        temporary.touch(0o600)
    files = [tmp_path / name for name in ("usual", "file", "folder/weights/model")]
    assert len({file.stat().st_mode for file in files}) == 1


def test_readers_see_the_old_file_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"


def die_in_the_middle(path):
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        os._exit(1)


def test_the_next_write_to_a_folder_removes_what_a_killed_process_left_there(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=die_in_the_middle, args=(tmp_path / "one",))
    process.start()
    process.join()
    assert len(names(tmp_path)) == 2  # and its lock
    write_text(tmp_path / "other", "whole")
    assert names(tmp_path) == ["other"]


_WRITER_ELSEWHERE = """
import sys
from pathlib import Path
from disent_core.storage.files import atomic_path
with atomic_path(Path(sys.argv[1])) as temporary:
    temporary.write_text("whole")
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a namespace of process numbers")
def test_a_process_in_another_container_of_the_same_name_is_left_alone(tmp_path):
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", _WRITER_ELSEWHERE, str(tmp_path / "one")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "begun\n"
        write_text(tmp_path / "other", "2")
        writer.communicate("")
    assert writer.returncode == 0
    assert names(tmp_path) == ["one", "other"]


def test_a_lock_is_removed_only_by_who_holds_it_so_that_a_writer_about_to_take_it_notices(tmp_path, monkeypatch):
    lock = tmp_path / f".file.{'0' * 32}.tmp.lock"
    lock.touch()  # as of a writer that has opened it a moment ago
    held = []

    def remove(path):
        if path == lock:
            with path.open("a") as again, pytest.raises(BlockingIOError):
                fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(path)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(files, "drop", remove)
    write_text(tmp_path / "other", "text")
    assert held == [lock]


def test_other_errors_of_the_system_pass(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "folder" / "file", "x")


def test_free_space_is_reported_for_the_disk_where_the_folder_will_be(tmp_path, monkeypatch):
    asked = []
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(Path(path)) or real(path))

    def fail():
        with atomic_path(tmp_path / "a" / "b" / "file"):
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(StorageError):
        fail()
    assert asked == [tmp_path / "a" / "b"]


# --- locks ------------------------------------------------------------------------------------------------


def test_every_lock_is_on_a_file_that_is_open_for_writing(tmp_path, monkeypatch):
    modes = []
    real = fcntl.flock

    def flock(lock, how):
        modes.append(fcntl.fcntl(lock, fcntl.F_GETFL) & os.O_ACCMODE)
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "table"), write_result(tmp_path / "table") as temporary:
        temporary.write_text("rows")
    write_text(tmp_path / "other", "text")
    assert len(modes) >= 4
    assert os.O_RDONLY not in modes  # NFS has no lock for these


def test_a_lock_that_was_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    real, removed = fcntl.flock, []

    def flock(lock, how):
        if not removed:  # as another process may, after this one has made the file and before it has locked it
            removed.extend(tmp_path.glob(".*.lock"))
            removed[0].unlink()
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with atomic_path(tmp_path / "one") as temporary:
        temporary.write_text("1")
        write_text(tmp_path / "other", "2")
        assert temporary.exists()
    assert len(removed) == 1


def count_up(path):
    with locked(path):
        value = int(path.read_text())
        time.sleep(0.02)
        path.write_text(str(value + 1))


def test_a_lock_admits_one_process_at_a_time(tmp_path):
    path = tmp_path / "counter"
    path.write_text("0")
    processes = [multiprocessing.get_context("fork").Process(target=count_up, args=(path,)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert path.read_text() == "8"


def hold(path, held):
    with locked(path):
        held.set()
        time.sleep(60)


def test_a_killed_process_leaves_no_lock(tmp_path):
    context = multiprocessing.get_context("fork")
    held = context.Event()
    process = context.Process(target=hold, args=(tmp_path / "file", held))
    process.start()
    assert held.wait(10)
    process.kill()
    process.join()
    with locked(tmp_path / "file"):
        pass

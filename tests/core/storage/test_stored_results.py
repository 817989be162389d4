"""Files are written atomically, locked by one process at a time, verified against manifests, quarantined if corrupt."""

import errno
import fcntl
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from disent_core.errors import DamagedError, StorageError
from disent_core.storage import files
from disent_core.storage.files import atomic_path, locked, replacing_folder, temporary_folder, write_text
from disent_core.storage.results import (
    manifest_path,
    none_if_damaged,
    open_result,
    read_result,
    verify_result,
    write_folder_manifest,
    write_result,
    write_text_result,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fails(path, error, write=atomic_path):
    with write(path) as temporary:
        temporary.write_text("half")
        raise error


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
    with pytest.raises(RuntimeError, match="something is wrong"):
        fails(path, RuntimeError("something is wrong"))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_published_files_get_default_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_path(tmp_path / "folder") as temporary:
        (temporary / "weights").mkdir(parents=True)
        (temporary / "weights" / "model").touch(0o600)
    with atomic_path(tmp_path / "file") as temporary:
        temporary.touch(0o600)
    files = [tmp_path / name for name in ("usual", "file", "folder/weights/model")]
    assert len({file.stat().st_mode for file in files}) == 1


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
def test_a_writer_in_another_pid_namespace_is_not_disturbed(tmp_path):
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", _WRITER_ELSEWHERE, str(tmp_path / "one")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "begun\n"
        write_text(tmp_path / "other", "2")
        writer.communicate("")
    assert writer.returncode == 0
    assert names(tmp_path) == ["one", "other"]


def test_a_leftover_lock_is_removed_only_while_held(tmp_path, monkeypatch):
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


def test_other_os_errors_are_not_wrapped(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "folder" / "file", "x")


def test_every_lock_file_is_opened_for_writing(tmp_path, monkeypatch):
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


def test_a_lock_removed_as_leftover_is_recreated(tmp_path, monkeypatch):
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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"no space left for this file \(\d+ MB free\)"),
        (OSError(errno.EDQUOT, "Quota exceeded"), "no space left"),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), "no space left"),
        (OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"), "no space left"),
        (SafetensorError("I/O error: Input/output error (os error 5)"), "the disk failed"),
        (OSError(errno.EIO, "Input/output error"), "the disk failed"),
    ],
)
def test_a_full_or_failing_disk_is_one_line_that_names_the_file_and_loses_nothing(tmp_path, error, message):
    path = tmp_path / "file"
    write_text_result(path, "old")
    with pytest.raises(StorageError, match=rf"file: .*{message}.*start the same run again"):
        fails(path, error, write_result)
    assert read_result(path) == b"old"
    assert names(tmp_path) == ["file", "file.manifest"]


def test_a_manifest_records_size_checksum_and_facts(tmp_path):
    assert verify_result(tmp_path / "file") is read_result(tmp_path / "file") is None
    with write_result(tmp_path / "file", rows=3, inputs="abc") as temporary:
        temporary.write_bytes(b"content")
    entry = verify_result(tmp_path / "file")
    assert (entry.bytes, entry.facts) == (7, {"rows": 3, "inputs": "abc"})
    assert entry.sha256 == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"


@given(st.binary(min_size=1, max_size=40), st.data())
def test_any_flipped_bit_is_detected_and_the_file_is_quarantined(tmp_path_factory, content, data):
    path = tmp_path_factory.mktemp("flip") / "file"
    with write_result(path) as temporary:
        temporary.write_bytes(content)
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(damaged)
    with pytest.raises(DamagedError, match=r"file: this file is not as it was written.*quarantined as file\.damaged"):
        read_result(path)
    assert names(path.parent) == ["file.damaged", "file.manifest"]
    assert verify_result(path) is None


@pytest.mark.parametrize("manifest", [None, b"", b"{", b"[]", b'{"files": [{"odd": 1}]}', b"\xff"])
def test_a_file_whose_manifest_is_lost_or_damaged_is_not_trusted(tmp_path, manifest):
    path = tmp_path / "file"
    write_text_result(path, "content")
    manifest_path(path).unlink()
    if manifest is not None:
        manifest_path(path).write_bytes(manifest)
    with pytest.raises(DamagedError, match="has no manifest"):
        verify_result(path)


@given(st.data())
def test_any_flipped_bit_of_a_manifest_invalidates_the_file_and_never_changes_its_entry(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("flip") / "file"
    with write_result(path, rows=3, inputs="abc") as temporary:
        temporary.write_bytes(b"content")
    recorded, manifest = verify_result(path), bytearray(manifest_path(path).read_bytes())
    bit = data.draw(st.integers(0, 8 * len(manifest) - 1))
    manifest[bit // 8] ^= 1 << bit % 8
    manifest_path(path).write_bytes(manifest)
    # A flipped bit may leave equivalent JSON, e.g. other white space.
    assert none_if_damaged(lambda: verify_result(path)) in (None, recorded)


def test_a_damaged_file_is_quarantined_and_logged(tmp_path, caplog):
    write_text_result(tmp_path / "file", "content")
    (tmp_path / "file").write_text("other")
    assert open_result(tmp_path / "file") is None
    assert "file: this file is not as it was written. It was quarantined" in caplog.text
    assert caplog.text.endswith("as file.damaged. It is rebuilt now\n")


def test_a_kill_between_manifest_and_file_leaves_the_old_file_valid_and_manifests_do_not_grow(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_text_result(path, "old")
    replace = os.replace

    def stop(source, target):
        if Path(target) == path:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_text_result(path, "new")
    assert len(json.loads(manifest_path(path).read_text())["files"]) == 2
    assert read_result(path) == b"old"
    monkeypatch.setattr(os, "replace", replace)
    for number in range(9):
        write_text_result(path, str(number))
    assert len(json.loads(manifest_path(path).read_text())["files"]) == 3


def fill(folder, *files_in_it):
    with replacing_folder(folder) as new:
        new.mkdir()
        for name in files_in_it:
            (new / name).write_text(name)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two folders change places")
def test_a_reader_finds_the_old_folder_or_the_new_one_while_it_is_replaced(tmp_path, monkeypatch):
    folder, seen, rmtree = tmp_path / "folder", [], shutil.rmtree
    fill(folder, "a", "b")

    def see(*removed, **options):
        seen.append(names(folder))
        rmtree(*removed, **options)

    monkeypatch.setattr(shutil, "rmtree", see)
    fill(folder, "c", "d")
    assert seen == [["c", "d"]]  # the old one is removed afterwards
    assert names(tmp_path) == ["folder"]


def test_without_atomic_exchange_a_failed_replacement_restores_the_old_folder(tmp_path, monkeypatch):
    folder, replace = tmp_path / "folder", os.replace
    monkeypatch.setattr(files, "exchanged", lambda left, right: False)
    fill(folder, "a")
    fill(folder, "b")
    assert names(folder) == ["b"]

    def fail(source, target):
        if (Path(source) / "c").exists():
            raise OSError(errno.EIO, "no disk")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="the disk failed"):
        fill(folder, "c")
    assert (names(folder), names(tmp_path)) == (["b"], ["folder"])


def write_often(path, seed):
    draw = random.Random(seed)
    for _ in range(100):
        write_text_result(path, "x" * draw.randrange(5_000))


def test_a_reader_beside_several_writers_always_reads_a_complete_file(tmp_path):
    path = tmp_path / "file"
    write_text_result(path, "first")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_often, args=(path, seed)) for seed in range(3)]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        assert read_result(path) is not None  # raises DamagedError if it ever reads a file that was not written
        reads += 1
    assert reads
    assert [writer.exitcode for writer in writers] == [0] * 3


DAMAGES = {"flip": "deep/one", "remove": "two", "add": "three", "no manifest": "files.manifest"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_folder_with_a_damaged_file_is_quarantined_whole(tmp_path, damage):
    folder = tmp_path / "folder"
    with atomic_path(folder) as temporary:
        (temporary / "deep").mkdir(parents=True)
        (temporary / "deep" / "one").write_text("1")
        (temporary / "two").write_text("2")
        write_folder_manifest(temporary)
    assert open_result(folder)
    file = folder / DAMAGES[damage]
    if damage in ("flip", "add"):
        file.write_text("3")
    else:
        file.unlink()
    assert not open_result(folder)
    assert names(tmp_path) == ["folder.damaged"]
    assert not open_result(folder)


def test_a_temporary_folder_is_removed_and_one_that_the_system_keeps_is_left_without_an_error(tmp_path, monkeypatch):
    with temporary_folder(tmp_path) as removed:
        (removed / "below").mkdir()
    assert not removed.exists()
    with temporary_folder(tmp_path) as kept:
        (kept / "below").mkdir()
        monkeypatch.setattr(os, "rmdir", Mock(side_effect=PermissionError))
    assert kept.is_dir()


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

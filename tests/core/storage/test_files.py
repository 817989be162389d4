"""Files that are whole or not there, sealed, and made by one at a time."""

import errno
import json
import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from disent_core.errors import DamagedError, StorageError
from disent_core.storage.files import (
    atomic_path,
    check_seal,
    is_sound_folder,
    locked,
    manifest_path,
    read_sealed,
    seal_folder,
    sealed_path,
    sound,
    write_sealed_text,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# --- whole or not at all ----------------------------------------------------------------------------------


def test_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")

    def fail():
        with atomic_path(path) as beside:
            beside.write_text("half")
            raise RuntimeError("something is wrong")

    with pytest.raises(RuntimeError, match="something is wrong"):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_folder_that_fails_half_way_leaves_nothing(tmp_path):
    def fail():
        with atomic_path(tmp_path / "folder") as beside:
            beside.mkdir()
            (beside / "part").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(tmp_path) == []


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with atomic_path(path) as beside:
        beside.write_text("new")
        assert path.read_text() == "old"
        assert beside.parent == path.parent
    assert path.read_text() == "new"


def test_an_open_file_is_undisturbed_by_its_replacement(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with path.open() as reader:
        write_text(path, "new")
        assert reader.read() == "old"


def die_in_the_middle(path):
    with atomic_path(path) as beside:
        beside.write_text("half")
        os._exit(1)


def test_what_a_killed_process_has_left_is_removed_by_the_next_write_to_the_folder(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=die_in_the_middle, args=(tmp_path / "one",))
    process.start()
    process.join()
    assert len(names(tmp_path)) == 1
    write_text(tmp_path / "other", "whole")
    assert names(tmp_path) == ["other"]


def test_what_a_living_process_is_writing_is_left_alone(tmp_path):
    with atomic_path(tmp_path / "one") as beside:
        beside.write_text("1")
        write_text(tmp_path / "other", "2")
    assert names(tmp_path) == ["one", "other"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"no space left for this file \(\d+ MB free\)"),
        (OSError(errno.EDQUOT, "Quota exceeded"), "no space left"),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), "no space left"),
        (OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"), "no space left"),
        (OSError(errno.EIO, "Input/output error"), "the disk fails"),
        (SafetensorError("I/O error: Input/output error (os error 5)"), "the disk fails"),
    ],
)
def test_a_full_or_failing_disk_is_one_line_that_names_the_file_and_loses_nothing(tmp_path, error, message):
    path = tmp_path / "file"
    write_sealed_text(path, "old")

    def fail():
        with sealed_path(path) as beside:
            beside.write_text("half")
            raise error

    with pytest.raises(StorageError, match=rf"file: .*{message}.*start the same run again"):
        fail()
    assert read_sealed(path) == b"old"
    assert names(tmp_path) == ["file", "file.manifest"]


def test_other_errors_of_the_system_pass(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "folder" / "file", "x")


# --- sealed -----------------------------------------------------------------------------------------------


def test_a_manifest_tells_size_checksum_and_facts(tmp_path):
    with sealed_path(tmp_path / "file", rows=3, inputs="abc") as beside:
        beside.write_bytes(b"content")
    seal = check_seal(tmp_path / "file")
    assert seal is not None
    assert (seal.bytes, seal.facts) == (7, {"rows": 3, "inputs": "abc"})
    assert seal.sha256 == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"


def test_a_file_that_is_not_there_has_no_seal(tmp_path):
    assert check_seal(tmp_path / "file") is None
    assert read_sealed(tmp_path / "file") is None


@given(st.binary(min_size=1, max_size=40), st.data())
def test_any_flipped_bit_is_seen_and_the_file_is_set_aside(tmp_path_factory, content, data):
    path = tmp_path_factory.mktemp("flip") / "file"
    with sealed_path(path) as beside:
        beside.write_bytes(content)
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(damaged)
    with pytest.raises(DamagedError, match=r"file: this file is not as it was written.*set aside as file\.damaged"):
        read_sealed(path)
    assert names(path.parent) == ["file.damaged", "file.manifest"]
    assert check_seal(path) is None


@pytest.mark.parametrize("manifest", [None, b"", b"{", b"[]", b'{"files": [{"odd": 1}]}', b"\xff"])
def test_a_file_whose_manifest_is_lost_or_damaged_is_not_trusted(tmp_path, manifest):
    path = tmp_path / "file"
    write_sealed_text(path, "content")
    manifest_path(path).unlink()
    if manifest is not None:
        manifest_path(path).write_bytes(manifest)
    with pytest.raises(DamagedError, match="has no manifest"):
        check_seal(path)


@given(st.data())
def test_any_flipped_bit_of_a_manifest_costs_the_file_and_never_changes_what_is_known_of_it(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("flip") / "file"
    with sealed_path(path, rows=3, inputs="abc") as beside:
        beside.write_bytes(b"content")
    known, told = check_seal(path), bytearray(manifest_path(path).read_bytes())
    bit = data.draw(st.integers(0, 8 * len(told) - 1))
    told[bit // 8] ^= 1 << bit % 8
    manifest_path(path).write_bytes(told)
    assert sound(path) in (None, known)  # a space between two entries means nothing


def test_who_can_make_a_damaged_file_anew_gets_a_line_in_the_log(tmp_path, caplog):
    write_sealed_text(tmp_path / "file", "content")
    (tmp_path / "file").write_text("other")
    assert sound(tmp_path / "file") is None
    assert "file: this file is not as it was written. It was set aside" in caplog.text
    assert caplog.text.endswith("as file.damaged, and is made anew\n")


def test_a_kill_between_manifest_and_file_leaves_the_old_file_good(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_sealed_text(path, "old")
    replace = os.replace

    def stop(source, target):
        if Path(target) == path:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_sealed_text(path, "new")
    assert len(json.loads(manifest_path(path).read_text())["files"]) == 2
    assert read_sealed(path) == b"old"


def test_a_manifest_does_not_grow(tmp_path):
    for number in range(9):
        write_sealed_text(tmp_path / "file", str(number))
    assert len(json.loads(manifest_path(tmp_path / "file").read_text())["files"]) == 3


def write_for_a_while(path, seed, until):
    draw = random.Random(seed)
    while time.monotonic() < until:
        write_sealed_text(path, "x" * draw.randrange(5_000))


def test_a_reader_beside_several_writers_always_reads_something_whole(tmp_path):
    path, until = tmp_path / "file", time.monotonic() + 1.0
    write_sealed_text(path, "first")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_for_a_while, args=(path, seed, until)) for seed in range(3)]
    for writer in writers:
        writer.start()
    reads = 0
    while time.monotonic() < until:
        assert read_sealed(path) is not None  # raises DamagedError if it ever finds another file than was written
        reads += 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert reads > 10


@pytest.mark.parametrize("damage", ["flip", "remove", "add", "no manifest"])
def test_a_folder_with_a_damaged_file_is_set_aside_whole(tmp_path, damage):
    folder = tmp_path / "folder"
    with atomic_path(folder) as beside:
        (beside / "deep").mkdir(parents=True)
        (beside / "deep" / "one").write_text("1")
        (beside / "two").write_text("2")
        seal_folder(beside)
    assert is_sound_folder(folder)
    if damage == "flip":
        (folder / "deep" / "one").write_text("3")
    elif damage == "remove":
        (folder / "two").unlink()
    elif damage == "add":
        (folder / "three").write_text("3")
    else:
        (folder / "files.manifest").unlink()
    assert not is_sound_folder(folder)
    assert names(tmp_path) == ["folder.damaged"]
    assert not is_sound_folder(folder)


# --- one at a time ----------------------------------------------------------------------------------------


def count_up(path):
    with locked(path):
        value = int(path.read_text())
        time.sleep(0.02)
        path.write_text(str(value + 1))


def test_a_lock_lets_one_in_at_a_time(tmp_path):
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


def test_free_space_is_told_of_the_disk_where_the_folder_will_be(tmp_path, monkeypatch):
    asked = []
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(Path(path)) or real(path))

    def fail():
        with atomic_path(tmp_path / "a" / "b" / "file"):
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(StorageError):
        fail()
    assert asked == [tmp_path / "a" / "b"]

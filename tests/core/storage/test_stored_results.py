"""Files are verified against their manifests, and corrupt ones are quarantined."""

import errno
import json
import multiprocessing
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from disent_core.errors import DamagedError, StorageError
from disent_core.storage.files import atomic_path
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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"no space left for this file \(\d+ MB free\)"),
        (OSError(errno.EDQUOT, "Quota exceeded"), "no space left"),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), "no space left"),
        (OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"), "no space left"),
        (OSError(errno.EIO, "Input/output error"), "the disk failed"),
        (SafetensorError("I/O error: Input/output error (os error 5)"), "the disk failed"),
    ],
)
def test_a_full_or_failing_disk_is_one_line_that_names_the_file_and_loses_nothing(tmp_path, error, message):
    path = tmp_path / "file"
    write_text_result(path, "old")

    def fail():
        with write_result(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(StorageError, match=rf"file: .*{message}.*start the same run again"):
        fail()
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


def test_a_damaged_file_that_is_rebuilt_is_logged(tmp_path, caplog):
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


def write_for_a_while(path, seed, until):
    draw = random.Random(seed)
    while time.monotonic() < until:
        write_text_result(path, "x" * draw.randrange(5_000))


def test_a_reader_beside_several_writers_always_reads_a_complete_file(tmp_path):
    path, until = tmp_path / "file", time.monotonic() + 1.0
    write_text_result(path, "first")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_for_a_while, args=(path, seed, until)) for seed in range(3)]
    for writer in writers:
        writer.start()
    reads = 0
    while time.monotonic() < until:
        assert read_result(path) is not None  # raises DamagedError if it ever reads a file that was not written
        reads += 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert reads > 10


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

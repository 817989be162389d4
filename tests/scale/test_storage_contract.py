"""What holds of results wherever a home is: in a folder, in a bucket in memory, or in one of S3."""

import threading
from collections import Counter

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from disent_assets.web_server import Pictures
from disent_core.errors import DamagedError
from disent_core.storage.checksums import (
    brought,
    checksummed_folder,
    checksummed_path,
    is_stored,
    is_verified_folder,
    read_verified,
    recorded,
    remove_all_below,
    remove_with_checksum,
    stored_in,
    verify_checksum,
    write_checksummed_text,
)
from disent_core.storage.remote import sole_maker

RESULT = "tables/stage/table/sample/en.parquet"


def fail(*_):
    raise ZeroDivisionError


def test_what_one_machine_writes_another_reads_with_its_facts(machines):
    here, there = machines.new(), machines.new()
    with checksummed_path(here / RESULT, rows=3, inputs="abc") as beside:
        beside.write_bytes(b"content")
    for home in (here, there):
        entry = verify_checksum(home / RESULT)
        assert entry is not None
        assert (entry.bytes, entry.facts) == (7, {"rows": 3, "inputs": "abc"})
        assert read_verified(home / RESULT) == brought(home / RESULT).read_bytes() == b"content"


def test_a_new_version_takes_the_place_of_the_one_that_another_machine_has_read(machines):
    here, there = machines.new(), machines.new()
    for version in ("first", "second", "first", "fourth"):
        write_checksummed_text(here / RESULT, version)
        assert read_verified(there / RESULT) == read_verified(here / RESULT) == version.encode()


def test_equal_bytes_with_other_facts_are_told_to_all(machines):
    here, there = machines.new(), machines.new()
    for inputs in ("old", "new"):
        with checksummed_path(here / RESULT, inputs=inputs) as beside:
            beside.write_bytes(b"content")
        assert all(verify_checksum(home / RESULT).facts == {"inputs": inputs} for home in (here, there))


def test_an_error_while_a_result_is_written_leaves_the_last_one(machines):
    here, there = machines.new(), machines.new()
    write_checksummed_text(here / RESULT, "whole")
    with pytest.raises(ZeroDivisionError), checksummed_path(here / RESULT) as beside:
        fail(beside.write_text("half"))
    assert read_verified(here / RESULT) == read_verified(there / RESULT) == b"whole"
    assert [path.name for path in (here / RESULT).parent.glob(".*tmp")] == []


def test_a_result_that_does_not_exist_is_none(machines):
    path = machines.new() / RESULT
    assert not is_stored(path)
    assert not brought(path).exists()
    assert verify_checksum(path) is recorded(path) is read_verified(path) is None
    assert stored_in(path.parent, "*") == []


def test_what_was_removed_is_gone_for_all_and_can_be_written_again(machines):
    here, there = machines.new(), machines.new()
    write_checksummed_text(here / RESULT, "once")
    assert read_verified(there / RESULT) == b"once"
    remove_with_checksum(here / RESULT)
    for home in (here, there):
        assert read_verified(home / RESULT) is recorded(home / RESULT) is None
        assert not is_stored(home / RESULT)
        assert stored_in((home / RESULT).parent, "*.parquet") == []
    write_checksummed_text(there / RESULT, "once")
    assert read_verified(here / RESULT) == b"once"


def test_of_a_folder_that_was_removed_nothing_is_left_for_anybody(machines):
    here, there = machines.new(), machines.new()
    folder = here / "checkpoints" / "one"
    for name in ("1.safetensors", "2/training.safetensors"):
        write_checksummed_text(folder / name, name)
    remove_all_below(folder)
    assert not folder.exists()
    assert [name for name in ("1.safetensors", "2/training.safetensors")
            if is_stored(there / "checkpoints" / "one" / name)] == []  # fmt: skip


def test_the_results_of_a_folder_are_found_by_their_names(machines):
    here, there = machines.new(), machines.new()
    for name in ("part-2.parquet", "part-1.parquet", "other.json"):
        write_checksummed_text(here / "tables" / "parts" / name, name)
    for home in (here, there):
        found = stored_in(home / "tables" / "parts", "part-*.parquet")
        assert [path.relative_to(home).as_posix() for path in found] == [
            f"tables/parts/part-{n}.parquet" for n in (1, 2)
        ]


def test_a_folder_is_published_whole_in_place_of_the_last_one(machines):
    here, there = machines.new(), machines.new()
    for version in ("old", "new"):
        with checksummed_folder(here / "encoders" / "tiny") as beside:
            (beside / "inner").mkdir(parents=True)
            (beside / "inner" / "weights").write_text(version)
            (beside / version).write_text("")
        for home in (here, there):
            folder = home / "encoders" / "tiny"
            assert is_stored(folder)
            assert is_verified_folder(folder)
            assert (folder / "inner" / "weights").read_text() == version
            assert [path.name for path in folder.iterdir() if path.name in ("old", "new")] == [version]


def test_a_folder_that_fails_while_it_is_filled_leaves_the_last_one(machines):
    here, there = machines.new(), machines.new()
    folder = here / "encoders" / "tiny"
    with checksummed_folder(folder) as beside:
        beside.mkdir()
        (beside / "weights").write_text("whole")
    with pytest.raises(ZeroDivisionError), checksummed_folder(folder) as beside:
        fail(beside.mkdir())
    assert is_verified_folder(there / "encoders" / "tiny")
    assert (folder / "weights").read_text() == "whole"


def test_of_sixteen_writers_at_once_each_version_is_whole_and_the_last_stays(machines):
    homes = [machines.new() for _ in range(4)]
    texts = [f"version {number} " * 1_000 for number in range(16)]
    seen, failed = Counter(), []

    def write(number: int) -> None:
        try:
            with checksummed_path(homes[number % 4] / RESULT, number=number) as beside:
                beside.write_text(texts[number])
            seen[read_verified(homes[-1] / RESULT).decode()] += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(seen) <= set(texts)
    entries = [recorded(home / RESULT) for home in homes]
    assert all(entry == entries[0] for entry in entries)
    assert {read_verified(home / RESULT).decode() for home in homes} == {texts[entries[0].facts["number"]]}


def test_one_makes_a_result_while_others_wait(machines):
    homes = [machines.new() for _ in range(3)]
    inside, most = [], []

    def make(number: int) -> None:
        for _ in range(3):
            with sole_maker(homes[number % 3] / RESULT):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 18


def test_the_web_server_shows_pictures_that_another_machine_has_drawn(machines):
    here, there = machines.new(), machines.new()
    write_checksummed_text(here / "plots" / "head" / "curve.png", "drawn")
    write_checksummed_text(here / "heads" / "curve.png", "no picture")
    client = TestClient(Starlette(routes=[Mount("/at", Pictures(directory=there / "plots", check_dir=False))]))
    assert client.get("/at/head/curve.png").text == "drawn"
    assert [client.get(f"/at/{name}").status_code for name in ("head/none.png", "%2e%2e/heads/curve.png")] == [404, 404]


def test_damage_is_never_read(machines):
    here = machines.new()
    write_checksummed_text(here / RESULT, "content")
    (here / RESULT).write_text("Content")
    if machines.bucket is None:  # there is no other copy
        with pytest.raises(DamagedError):
            read_verified(here / RESULT)
    else:
        assert read_verified(here / RESULT) == b"content"
    assert (here / f"{RESULT}.damaged").read_text() == "Content"


def test_a_damaged_folder_is_never_used(machines):
    here = machines.new()
    folder = here / "encoders" / "tiny"
    with checksummed_folder(folder) as beside:
        beside.mkdir()
        (beside / "weights").write_text("content")
    (folder / "weights").write_text("Content")
    assert is_verified_folder(folder) == (machines.bucket is not None)
    assert not folder.exists() or (folder / "weights").read_text() == "content"

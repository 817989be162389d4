"""What holds of results wherever a home is: in a folder, in a bucket in memory, or in one of S3."""

import threading
from collections import Counter

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from disent_assets.web.server import Pictures
from disent_core.errors import DamagedError
from disent_core.storage.results import (
    fetch,
    list_results,
    manifest_entry,
    open_result,
    read_result,
    remove_result,
    remove_results,
    result_exists,
    sole_maker,
    verify_result,
    write_folder,
    write_result,
    write_text_result,
)

RESULT = "tables/stage/table/sample/en.parquet"


def fail(*_):
    raise ZeroDivisionError


def test_another_machine_reads_a_result_with_its_facts(machines):
    here, there = machines.new(), machines.new()
    with write_result(here / RESULT, rows=3, inputs="abc") as temporary:
        temporary.write_bytes(b"content")
    for home in (here, there):
        entry = verify_result(home / RESULT)
        assert entry is not None
        assert (entry.bytes, entry.facts) == (7, {"rows": 3, "inputs": "abc"})
        assert read_result(home / RESULT) == fetch(home / RESULT).read_bytes() == b"content"


def test_a_new_version_replaces_one_already_read_elsewhere(machines):
    here, there = machines.new(), machines.new()
    for version in ("first", "second", "first", "fourth"):
        write_text_result(here / RESULT, version)
        assert read_result(there / RESULT) == read_result(here / RESULT) == version.encode()


def test_changed_facts_with_equal_bytes_reach_all_machines(machines):
    here, there = machines.new(), machines.new()
    for inputs in ("old", "new"):
        with write_result(here / RESULT, inputs=inputs) as temporary:
            temporary.write_bytes(b"content")
        assert all(verify_result(home / RESULT).facts == {"inputs": inputs} for home in (here, there))


def test_an_error_while_a_result_is_written_leaves_the_last_one(machines):
    here, there = machines.new(), machines.new()
    write_text_result(here / RESULT, "whole")
    with pytest.raises(ZeroDivisionError), write_result(here / RESULT) as temporary:
        fail(temporary.write_text("half"))
    assert read_result(here / RESULT) == read_result(there / RESULT) == b"whole"
    assert [path.name for path in (here / RESULT).parent.glob(".*tmp")] == []


def test_a_result_that_does_not_exist_is_none(machines):
    path = machines.new() / RESULT
    assert not result_exists(path)
    assert not fetch(path).exists()
    assert verify_result(path) is manifest_entry(path) is read_result(path) is None
    assert list_results(path.parent, "*") == []


def test_a_removed_result_is_gone_everywhere_and_can_be_rewritten(machines):
    here, there = machines.new(), machines.new()
    write_text_result(here / RESULT, "once")
    assert read_result(there / RESULT) == b"once"
    remove_result(here / RESULT)
    for home in (here, there):
        assert read_result(home / RESULT) is manifest_entry(home / RESULT) is None
        assert not result_exists(home / RESULT)
        assert list_results((home / RESULT).parent, "*.parquet") == []
    write_text_result(there / RESULT, "once")
    assert read_result(here / RESULT) == b"once"


def test_a_removed_folder_is_gone_everywhere(machines):
    here, there = machines.new(), machines.new()
    folder = here / "checkpoints" / "one"
    for name in ("1.safetensors", "2/training.safetensors"):
        write_text_result(folder / name, name)
    remove_results(folder)
    assert not folder.exists()
    assert [name for name in ("1.safetensors", "2/training.safetensors")
            if result_exists(there / "checkpoints" / "one" / name)] == []  # fmt: skip


def test_the_results_of_a_folder_are_found_by_their_names(machines):
    here, there = machines.new(), machines.new()
    for name in ("part-2.parquet", "part-1.parquet", "other.json"):
        write_text_result(here / "tables" / "parts" / name, name)
    for home in (here, there):
        results = list_results(home / "tables" / "parts", "part-*.parquet")
        assert [path.relative_to(home).as_posix() for path in results] == [
            f"tables/parts/part-{n}.parquet" for n in (1, 2)
        ]


def test_a_folder_is_published_whole_in_place_of_the_last_one(machines):
    here, there = machines.new(), machines.new()
    for version in ("old", "new"):
        with write_folder(here / "encoders" / "tiny") as temporary:
            (temporary / "inner").mkdir(parents=True)
            (temporary / "inner" / "weights").write_text(version)
            (temporary / version).write_text("")
        for home in (here, there):
            folder = home / "encoders" / "tiny"
            assert result_exists(folder)
            assert open_result(folder)
            assert (folder / "inner" / "weights").read_text() == version
            assert [path.name for path in folder.iterdir() if path.name in ("old", "new")] == [version]


def test_a_folder_that_fails_while_it_is_filled_leaves_the_last_one(machines):
    here, there = machines.new(), machines.new()
    folder = here / "encoders" / "tiny"
    with write_folder(folder) as temporary:
        temporary.mkdir()
        (temporary / "weights").write_text("whole")
    with pytest.raises(ZeroDivisionError), write_folder(folder) as temporary:
        fail(temporary.mkdir())
    assert open_result(there / "encoders" / "tiny")
    assert (folder / "weights").read_text() == "whole"


def test_of_sixteen_writers_at_once_each_version_is_whole_and_the_last_stays(machines):
    homes = [machines.new() for _ in range(4)]
    texts = [f"version {number} " * 1_000 for number in range(16)]
    seen, failed = Counter(), []

    def write(number: int) -> None:
        try:
            with write_result(homes[number % 4] / RESULT, number=number) as temporary:
                temporary.write_text(texts[number])
            seen[read_result(homes[-1] / RESULT).decode()] += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(seen) <= set(texts)
    entries = [manifest_entry(home / RESULT) for home in homes]
    assert all(entry == entries[0] for entry in entries)
    assert {read_result(home / RESULT).decode() for home in homes} == {texts[entries[0].facts["number"]]}


def test_only_one_maker_of_a_result_runs_at_a_time(machines):
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


def test_the_web_server_shows_pictures_of_other_machines(machines):
    here, there = machines.new(), machines.new()
    write_text_result(here / "plots" / "head" / "curve.png", "drawn")
    write_text_result(here / "heads" / "curve.png", "no picture")
    client = TestClient(Starlette(routes=[Mount("/at", Pictures(directory=there / "plots", check_dir=False))]))
    assert client.get("/at/head/curve.png").text == "drawn"
    assert [client.get(f"/at/{name}").status_code for name in ("head/none.png", "%2e%2e/heads/curve.png")] == [404, 404]


def test_damaged_results_are_never_read(machines):
    here = machines.new()
    write_text_result(here / RESULT, "content")
    (here / RESULT).write_text("Content")
    if machines.bucket is None:  # there is no other copy
        with pytest.raises(DamagedError):
            read_result(here / RESULT)
    else:
        assert read_result(here / RESULT) == b"content"
    assert (here / f"{RESULT}.damaged").read_text() == "Content"


def test_a_damaged_folder_is_never_used(machines):
    here = machines.new()
    folder = here / "encoders" / "tiny"
    with write_folder(folder) as temporary:
        temporary.mkdir()
        (temporary / "weights").write_text("content")
    (folder / "weights").write_text("Content")
    assert (open_result(folder) is not None) == (machines.bucket is not None)
    assert not folder.exists() or (folder / "weights").read_text() == "content"

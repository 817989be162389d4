"""A home in a bucket: what its copies are for, what a kill leaves, and what is cleaned up."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from stores import Machines, write_number

from disent_core.errors import DamagedError
from disent_core.shards.backend import ShardBackend, map_shards, sharded
from disent_core.storage.bucket import Bucket
from disent_core.storage.files import manifest_path, remove_path
from disent_core.storage.remote import RIVALS, LruCache, delete_orphans, find_orphans, looking, published_in, remote_of
from disent_core.storage.results import (
    fetch,
    fetch_all,
    list_results,
    manifest_entry,
    open_result,
    read_result,
    remove_result,
    result_exists,
    sole_maker,
    write_folder,
    write_result,
    write_text_result,
)
from disent_core.storage.weights import read_checkpoint, write_checkpoint

RESULT = "tables/stage/en.parquet"
OTHER = "tables/stage/other"


@pytest.fixture
def shared(bucket, tmp_path):
    """Machines that share a bucket."""
    machines = Machines(tmp_path, bucket)
    yield machines
    machines.end()


def bytes_of(bucket):
    return sorted(entry.key for entry in bucket.listed() if entry.key.startswith(f"{RESULT}/"))


def test_facts_of_a_result_are_known_without_fetching_it(shared):
    here, there = shared.new(), shared.new()
    with write_result(here / RESULT, rows=3) as temporary:
        temporary.write_text("content")
    assert manifest_entry(there / RESULT).facts == {"rows": 3}
    assert result_exists(there / RESULT)
    assert not (there / RESULT).exists()


def test_an_evicted_copy_is_refetched_and_a_recently_read_one_stays(shared):
    here, there = shared.new(), shared.new()
    unread, read, new = (there / "tables" / "stage" / name for name in ("unread", "read", "new"))
    for path in (unread, read, new):
        write_text_result(here / path.relative_to(there), "text" * 1000)
    for path in (unread, read):
        read_result(path)
        for file in (path, manifest_path(path)):
            os.utime(file, (0, 0))
    read_result(read)
    remote_of(new).cache = LruCache(there, 5000)
    read_result(new)
    assert [path.exists() for path in (unread, read, new)] == [False, True, True]
    assert read_result(unread) == b"text" * 1000


def test_the_cache_folder_is_a_complete_home_without_the_bucket(shared, tmp_path):
    here, there = shared.new(), shared.new()
    write_text_result(here / RESULT, "content")
    read_result(there / RESULT)
    there.rename(tmp_path / "plain")
    assert read_result(tmp_path / "plain" / RESULT) == b"content"


def test_a_refused_replacement_is_tried_again_after_a_pause_that_grows(shared, monkeypatch):
    path = shared.new() / RESULT
    write_text_result(path, "content")
    pauses, replace = [], Bucket.replace
    monkeypatch.setattr("disent_core.storage.remote.backoff", lambda tries, first, longest: (tries, first, longest))
    monkeypatch.setattr("disent_core.storage.remote.time.sleep", pauses.append)
    monkeypatch.setattr(Bucket, "replace", lambda *given: replace(*given) if len(pauses) == 5 else None)
    write_text_result(path, "new")
    assert pauses == [(tries, *RIVALS) for tries in range(5)]
    assert read_result(path) == b"new"


@pytest.mark.parametrize("name", ["cache/arrays/one", "dagster/one", "encoders/.tiny.pretraining/one", ".one"])
def test_machine_local_results_are_not_uploaded(shared, name):
    here = shared.new()
    write_text_result(here / name, "content")
    assert read_result(here / name) == b"content"
    assert shared.bucket.listed() == []


def test_paths_outside_the_home_are_not_remote(shared, tmp_path):
    here = shared.new()
    assert remote_of(here / RESULT) is not None
    assert remote_of(here.with_name(here.name + "-other") / RESULT) is None
    assert remote_of(tmp_path / RESULT) is None


@pytest.mark.parametrize("fault", ["changed", "cut", "gone"])
def test_bytes_that_are_damaged_in_the_bucket_are_quarantined_and_the_result_can_be_made_again(shared, fault):
    here, there = shared.new(), shared.new()
    write_text_result(here / RESULT, "older")
    write_text_result(here / RESULT, "content")
    newest = remote_of(here / RESULT)._newest(here / RESULT).object
    shared.bucket.delete(newest)
    if fault != "gone":
        shared.bucket.create(newest, {"changed": b"Content", "cut": b"cont"}[fault])
    with pytest.raises(DamagedError, match=r"en.parquet: .* quarantined as en.parquet.damaged. Materialise its asset"):
        read_result(there / RESULT)
    assert read_result(there / RESULT) is None
    assert not result_exists(here / RESULT)
    assert list_results((here / RESULT).parent, "*") == [here / f"{RESULT}.damaged"]
    write_text_result(there / RESULT, "again")
    assert read_result(here / RESULT) == b"again"


def test_a_file_of_a_folder_that_is_damaged_in_the_bucket_quarantines_the_folder(shared):
    here, there = shared.new(), shared.new()
    with write_folder(here / "encoders" / "tiny") as temporary:
        temporary.mkdir()
        (temporary / "weights").write_text("content")
    files = remote_of(here / "encoders" / "tiny")._newest(here / "encoders" / "tiny").files
    shared.bucket.delete(files["weights"])
    shared.bucket.create(files["weights"], b"Content")
    with pytest.raises(DamagedError):
        fetch(there / "encoders" / "tiny")
    assert not open_result(there / "encoders" / "tiny")
    assert not (there / "encoders" / "tiny").exists()


def test_equal_bytes_are_uploaded_once(shared):
    here, there = shared.new(), shared.new()
    for home in (here, there):
        write_text_result(home / RESULT, "content")
    assert len(bytes_of(shared.bucket)) == 1


def test_a_checkpoint_resumes_on_another_machine(shared, monkeypatch):
    import torch

    here, there = shared.new(), shared.new()
    for step in range(3):
        write_checkpoint(here / "checkpoints" / "one", "run", {"step": step}, {"weights": torch.ones(2)})
    state, tensors = read_checkpoint(there / "checkpoints" / "one", "run")
    assert state == {"step": 0}  # the others came within a minute of it
    assert tensors["weights"].tolist() == [1.0, 1.0]


def test_results_of_shard_processes_reach_the_bucket(address, tmp_path):
    machines = Machines(tmp_path, Bucket(address))
    here, there = machines.new(), machines.new()
    with sharded(ShardBackend("processes", 2)):
        assert list(map_shards(partial(write_number, here / "tables" / "parts"), range(3))) == [None] * 3
    for number in range(3):
        assert read_result(there / "tables" / "parts" / str(number)) == f"number {number}".encode()
    machines.end()


# --- looks ------------------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The keys that are read, in their order."""
    keys, request = [], Bucket.read
    monkeypatch.setattr(Bucket, "read", lambda self, key: keys.append(key) or request(self, key))
    return keys


@pytest.mark.parametrize("seconds", [None, 0.0, 60.0])
def test_a_look_reads_each_manifest_once_and_sees_local_writes(shared, read, seconds):
    here = shared.new()
    write_text_result(here / RESULT, "old")
    read.clear()
    with looking(here, seconds):
        assert result_exists(here / RESULT)
        assert read_result(here / RESULT) == b"old"
        assert not result_exists(here / OTHER)
        write_text_result(here / RESULT, "new")
        write_text_result(here / OTHER, "text")
        assert read_result(here / RESULT) == b"new"
        assert list_results((here / RESULT).parent, "*") == [here / RESULT, here / OTHER]
        remove_result(here / OTHER)
        assert list_results((here / RESULT).parent, "*") == [here / RESULT]
        assert list_results(here / "tables", "*/en.*") == [here / RESULT]
    assert read.count(f"{RESULT}.manifest") == 1
    assert read.count(f"{OTHER}.manifest") == 0


def test_a_fresh_look_rereads_only_changed_manifests(shared, read):
    here, there = shared.new(), shared.new()
    write_text_result(here / RESULT, "old")
    write_text_result(here / OTHER, "text")
    with looking(here, 0.0):
        pass
    write_text_result(there / RESULT, "new")
    remove_result(there / OTHER)
    read.clear()
    with looking(here, 60.0):
        assert read_result(here / RESULT) == b"old"  # as it was a moment ago
    with looking(here, 0.0):
        assert read_result(here / RESULT) == b"new"
        assert not result_exists(here / OTHER)
        assert list_results((here / RESULT).parent, "*") == [here / RESULT]
    assert sorted(read) == [f"{RESULT}.manifest", f"{OTHER}.manifest"]


def test_results_are_fetched_in_parallel_within_the_look_of_the_caller(shared, read):
    here, there = shared.new(), shared.new()
    for name in (RESULT, OTHER):
        write_text_result(here / name, name)
    with looking(there, 0.0):
        read.clear()
        fetch_all([there / RESULT, there / OTHER, there / "tables/stage/none"])
    assert [(there / name).read_text() for name in (RESULT, OTHER)] == [RESULT, OTHER]
    assert read == []


def test_a_lease_holder_sees_results_of_others_within_a_look(shared):
    here, there = shared.new(), shared.new()
    with looking(here, 0.0):
        assert not result_exists(here / RESULT)
        write_text_result(there / RESULT, "content")
        assert not result_exists(here / RESULT)
        with sole_maker(here / RESULT):
            assert read_result(here / RESULT) == b"content"


def test_concurrent_replacements_within_a_look_are_not_lost(shared):
    here, there = shared.new(), shared.new()
    write_text_result(here / RESULT, "first")
    with looking(here, 0.0):
        write_text_result(there / RESULT, "second")
        write_text_result(here / RESULT, "third")
    assert read_result(there / RESULT) == b"third"
    assert len(bytes_of_versions(here)) == 3


# --- kills ------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from disent_core.storage.results import write_text_result
from disent_core.storage.bucket import Bucket
from disent_core.storage.remote import RemoteHome, attach

address, folder = sys.argv[1:]
Bucket._put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
attach(RemoteHome(Bucket(address), Path(folder)))
write_text_result(Path(folder) / "tables/stage/en.parquet", "new")
"""


def test_a_kill_between_bytes_and_manifest_leaves_the_old_result(address, tmp_path):
    machines = Machines(tmp_path, Bucket(address))
    here = machines.new()
    write_text_result(here / RESULT, "old")
    (tmp_path / "killed").mkdir()
    command = [sys.executable, "-c", KILLED, address, str(tmp_path / "killed")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert read_result(here / RESULT) == b"old"
    orphans = find_orphans(machines.bucket, timedelta())
    assert len(orphans) == 1
    delete_orphans(machines.bucket, orphans)
    assert read_result(machines.new() / RESULT) == b"old"
    write_text_result(here / RESULT, "new")
    assert read_result(machines.new() / RESULT) == b"new"
    machines.end()


# --- leftovers --------------------------------------------------------------------------------------------


def test_gc_keeps_bytes_of_listed_versions_only(shared):
    here = shared.new()
    for version in range(5):
        write_text_result(here / RESULT, str(version))
    with write_folder(here / "encoders" / "tiny") as temporary:
        temporary.mkdir()
        (temporary / "weights").write_text("content")
    everything = {entry.key for entry in shared.bucket.listed()}
    assert find_orphans(shared.bucket, timedelta(hours=1)) == []
    orphans = find_orphans(shared.bucket, timedelta())
    assert {entry.key for entry in orphans} == set(bytes_of(shared.bucket)) - set(bytes_of_versions(here))
    assert delete_orphans(shared.bucket, orphans) == 2
    assert {entry.key for entry in shared.bucket.listed()} == everything - {entry.key for entry in orphans}
    there = shared.new()
    assert read_result(there / RESULT) == b"4"
    assert open_result(there / "encoders" / "tiny")


def bytes_of_versions(home):
    return [version.object for version in published_in(remote_of(home / RESULT)._read(home / RESULT).data)]


def test_gc_deletes_old_checkpoints_and_quarantined_results(shared):
    here = shared.new()
    write_text_result(here / "checkpoints" / "one", "state")
    write_text_result(here / RESULT, "content")
    shared.bucket.delete(remote_of(here / RESULT)._newest(here / RESULT).object)
    remove_path(here)
    with pytest.raises(DamagedError):
        read_result(here / RESULT)
    delete_orphans(shared.bucket, find_orphans(shared.bucket, timedelta()))
    assert not result_exists(here / "checkpoints" / "one")
    assert not result_exists(here / f"{RESULT}.damaged")
    assert bytes_of(shared.bucket) == []


# --- any order of events ----------------------------------------------------------------------------------

NAMES = st.sampled_from(["one", "two", "three"])
TEXTS = st.sampled_from(["a", "b", "c"])
WHICH = st.integers(0, 1)


class AnyOrder(RuleBasedStateMachine):
    """Two machines and a dictionary: whatever is done, and whatever happens to copies, both read what it has."""

    @initialize()
    def begin(self):
        self.folder = Path(os.environ["PYTEST_HOMES"]) / os.urandom(8).hex()
        self.folder.mkdir()
        self.machines = Machines(self.folder, Bucket("memory:///"))
        self.homes = [self.machines.new(), self.machines.new()]
        self.model = {}

    def path(self, which, name):
        return self.homes[which] / "tables" / "stage" / name

    @rule(which=WHICH, name=NAMES, text=TEXTS)
    def write(self, which, name, text):
        write_text_result(self.path(which, name), text)
        self.model[name] = text

    @rule(which=WHICH, name=NAMES)
    def remove(self, which, name):
        remove_result(self.path(which, name))
        self.model.pop(name, None)

    @rule(which=WHICH, name=NAMES)
    def fail(self, which, name):
        with pytest.raises(ZeroDivisionError), write_result(self.path(which, name)):
            raise ZeroDivisionError

    @rule(which=WHICH, name=NAMES)
    def lose_a_copy(self, which, name):
        remove_path(self.path(which, name))

    @rule(which=WHICH, name=NAMES)
    def damage_a_copy(self, which, name):
        if self.path(which, name).exists():
            self.path(which, name).write_text("z")

    @rule()
    def clean_up(self):
        delete_orphans(self.machines.bucket, find_orphans(self.machines.bucket, timedelta()))

    @rule(which=WHICH)
    def read(self, which):
        for name in ("one", "two", "three"):
            wanted = self.model.get(name)
            assert read_result(self.path(which, name)) == (None if wanted is None else wanted.encode())
            assert result_exists(self.path(which, name)) == (wanted is not None)
        names = [path.name for path in list_results(self.path(which, "any").parent, "*")]
        assert names == sorted(self.model)

    def teardown(self):
        self.machines.end()


def test_in_any_order_of_events_both_machines_read_what_was_written_last(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_HOMES", str(tmp_path))
    case = AnyOrder.TestCase()
    case.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
    case.runTest()

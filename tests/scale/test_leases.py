"""Leases: one holder at a time, a dead one is followed, and whoever has lost a lease publishes nothing."""

import threading
import time

import pytest
from stores import QUICK

from disent_core.errors import StorageError
from disent_core.storage.bucket import Bucket
from disent_core.storage.leases import Lease, Pace, _take, leased
from disent_core.storage.remote import RemoteHome, attach, remote_of
from disent_core.storage.results import read_result, sole_maker, write_text_result

KEY = "tables/table.lease"
DEAD = Pace(beat=1e6, lasts=0.3, look=0.01)
"""A holder that never renews its lease, as after a kill."""
RESULT = "tables/stage/en.parquet"


def lease_of(bucket, pace=DEAD) -> Lease:
    """Take a lease as a process does that is killed before it gives it back."""
    return _take(bucket, KEY, pace, "killed")


def test_fences_increase_and_released_leases_are_free_at_once(bucket):
    fences = []
    for _ in range(3):
        with leased(bucket, KEY, Pace(lasts=1e6)) as lease:
            fences.append(lease.claim.fence)
    assert fences == [1, 2, 3]


def test_the_lease_of_a_dead_holder_is_taken_over_and_its_renewal_is_refused(bucket):
    zombie = lease_of(bucket)
    with leased(bucket, KEY, DEAD) as lease:
        assert lease.claim.fence == 2
        for _ in range(2):
            with pytest.raises(StorageError, match=r"another process has taken over .* start the same run again"):
                zombie.renew()
        lease.renew()


def test_a_zombie_releasing_its_lease_does_not_affect_the_new_holder(bucket):
    zombie = lease_of(bucket)
    with leased(bucket, KEY, DEAD) as lease:
        zombie.release()
        lease.renew()


def test_a_lease_with_a_living_holder_is_never_taken_over(bucket):
    order, waits = [], threading.Event()

    def second():
        waits.set()
        with leased(bucket, KEY, Pace(beat=1e6, lasts=1.0, look=0.01)):
            order.append("second")

    with leased(bucket, KEY, Pace(beat=0.02, lasts=1e6, look=0.01)) as lease:
        thread = threading.Thread(target=second)
        thread.start()
        waits.wait()
        while lease.claim.beat < 20:
            threading.Event().wait(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_store_outage_does_not_expire_a_lease():
    class Away(Bucket):
        """Its first looks last longer than a lease."""

        looks = 0

        def read(self, key):
            self.looks += 1
            if self.looks in (2, 3):
                time.sleep(2 * DEAD.lasts)
            elif self.looks > 3:
                holder.release()
            return super().read(key)

    bucket = Away("memory:///")
    holder = lease_of(Bucket("memory:///", _stores=bucket._stores))
    with leased(bucket, KEY, DEAD) as lease:
        assert (lease.claim.fence, bucket.looks) == (2, 4)


def test_a_renewed_lease_is_another_object_even_if_its_store_compares_bytes(bucket):
    lease = lease_of(bucket)
    before = bucket.read(KEY)
    lease.renew()
    assert bucket.read(KEY).version != before.version
    assert bucket.read(KEY).version == lease.version


def test_a_killed_process_is_followed_at_once_on_its_own_machine(machines):
    home = machines.new()
    if machines.bucket is not None:
        remote = remote_of(home / RESULT)
        remote.pace = Pace(beat=1e6, lasts=1e6, look=0.01)
        _take(machines.bucket, f"{RESULT}.lease", remote.pace, remote._machine())
    with sole_maker(home / RESULT):  # would wait for ever otherwise
        write_text_result(home / RESULT, "content")
    assert read_result(home / RESULT) == b"content"


def take_over(bucket):
    """Take the lease of the result as another process does that has waited long enough."""
    key = f"{RESULT}.lease"
    held = bucket.read(key)
    while bucket.replace(key, held.data.replace(b'"fence": 1', b'"fence": 2'), held.version) is None:
        held = bucket.read(key)  # it was renewed meanwhile


def test_a_process_that_lost_its_lease_publishes_nothing(machines):
    if machines.bucket is None:
        pytest.skip("the system releases the lock of a dead process")
    here, there = machines.new(), machines.new()
    started, taken = threading.Event(), threading.Event()
    refused = []

    def zombie():
        with sole_maker(here / RESULT):
            started.set()
            taken.wait()
            try:
                write_text_result(here / RESULT, "old")
            except StorageError as error:
                refused.append(str(error))

    thread = threading.Thread(target=zombie)
    thread.start()
    started.wait()
    take_over(machines.bucket)
    write_text_result(there / RESULT, "new")
    taken.set()
    thread.join()
    assert len(refused) == 1
    assert read_result(here / RESULT) == read_result(there / RESULT) == b"new"


def test_a_home_that_is_opened_again_keeps_the_leases_that_this_process_holds(machines):
    if machines.bucket is None:
        pytest.skip("a folder has locks")
    home = machines.new()
    with sole_maker(home / RESULT):
        attach(RemoteHome(machines.bucket, home, QUICK))
        take_over(machines.bucket)
        with pytest.raises(StorageError, match="another process has taken over"):
            write_text_result(home / RESULT, "old")

"""A bucket: writes that may be refused, and a store that fails, is slow, cuts its answers or loses them."""

import time
from datetime import timedelta

import pytest
from stores import Proxy, busy, cut, flipped, gone, lost_answer, refused, silent

from disent_core.errors import StorageError, TransientError
from disent_core.storage.bucket import CHUNK, Bucket, check_bucket
from disent_core.storage.patience import Patience
from disent_core.storage.remote import RemoteHome, attach, detach
from disent_core.storage.results import read_result, write_result, write_text_result

IMPATIENT = {
    "retry_config": {"max_retries": 4, "backoff": {"init_backoff": timedelta(milliseconds=1)}},
    "client_options": {"timeout": timedelta(milliseconds=500), "allow_http": True},
}
RESULT = "tables/stage/en.parquet"


@pytest.fixture(params=["moto", "seaweedfs"])
def s3(request, server):
    return server(request.param)


@pytest.fixture
def proxy(s3):
    with Proxy(s3) as proxy:
        yield proxy


@pytest.fixture
def home(proxy, address, tmp_path):
    """A home whose requests go through the proxy."""
    patience = Patience("", 1.0, pause=lambda _: time.sleep(0.01))
    home = RemoteHome(Bucket(address, {**IMPATIENT, "endpoint": proxy.address}, patience=patience), tmp_path)
    attach(home)
    yield home
    detach(tmp_path)


def test_an_object_is_created_once(bucket):
    assert bucket.read("key") is None
    assert bucket.create("key", b"one") == bucket.read("key").version
    assert bucket.create("key", b"two") is None
    assert bucket.read("key").data == b"one"


def test_only_the_version_that_was_read_is_replaced(bucket):
    first = bucket.create("key", b"one")
    second = bucket.replace("key", b"two", first)
    assert bucket.replace("key", b"three", first) is None
    assert bucket.read("key").data == b"two"
    bucket.delete("key")
    bucket.delete("key")
    assert bucket.replace("key", b"four", second) is None
    assert bucket.read("key") is None


def test_exactly_one_of_racing_writes_succeeds(bucket):
    check_bucket(bucket)
    assert bucket.listed() == []


@pytest.mark.parametrize("careless", ["create", "replace"])
def test_a_store_that_lets_two_racing_writes_pass_is_refused_in_one_line(careless):
    class Careless(Bucket):
        """Looks first and writes then, as stores without conditional writes do behind some gateways."""

        def _put(self, key, data, mode):
            if (mode == "create") == (careless == "create"):
                super()._put(key, data, "overwrite")
                return {"e_tag": "any"}
            return super()._put(key, data, mode)

    bucket = Careless("memory:///")
    message = (
        r"^memory:///: of 16 concurrent writes, \d+ created the same object .* could be lost there: use a store with"
    )
    with pytest.raises(StorageError, match=message):
        check_bucket(bucket)
    assert bucket.listed() == []


def test_errors_of_racing_writes_are_raised_in_the_caller():
    class Bare(Bucket):
        """Without the extra."""

        def _put(self, key, data, mode):
            raise ModuleNotFoundError("No module named 'obstore'")

    with pytest.raises(ModuleNotFoundError):
        check_bucket(Bare("memory:///"))


def test_a_large_file_is_fetched_in_parts(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.storage.bucket.CHUNK", 1_000)
    content = bytes(range(256)) * 13
    assert CHUNK > len(content) > 3_000
    (tmp_path / "file").write_bytes(content)
    bucket.upload(tmp_path / "file", "key")
    assert bucket.download("key", tmp_path / "copy", len(content)) is not None
    assert (tmp_path / "copy").read_bytes() == content
    assert bucket.download("other", tmp_path / "copy", len(content)) is None


# --- faults of a store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [busy, cut, silent])
def test_transient_store_faults_are_retried(fault, proxy, home, tmp_path):
    write_text_result(tmp_path / RESULT, "old")
    (tmp_path / RESULT).unlink()
    proxy.break_next(fault, times=3, methods=("GET",))
    assert read_result(tmp_path / RESULT) == b"old"
    proxy.break_next(busy, times=3, methods=("PUT",))
    write_text_result(tmp_path / RESULT, "new")
    assert read_result(tmp_path / RESULT) == b"new"
    assert proxy.met == 6


@pytest.mark.parametrize("fault", [busy, gone])
def test_a_store_outage_of_8_seconds_is_waited_for(fault, proxy, address, tmp_path, caplog):
    home = RemoteHome(Bucket(address, {"endpoint": proxy.address}), tmp_path)
    attach(home)
    write_text_result(tmp_path / RESULT, "old")
    with proxy.away(fault, 8.0):
        write_text_result(tmp_path / RESULT, "new")
    assert read_result(tmp_path / RESULT) == b"new"
    detach(tmp_path)
    assert [message.split(address)[1].split(",")[0] for message in caplog.messages] == [
        " does not answer: waiting for it",
        " answers again",
    ]


def test_an_unreachable_store_fails_without_waiting(proxy, address):
    proxy.usual = lambda _: gone
    bucket = Bucket(address, {**IMPATIENT, "endpoint": proxy.address}, patience=Patience("", pause=pytest.fail))
    with pytest.raises(TransientError, match="start the same run again"):
        bucket.read("key")


def test_a_truncated_refusal_is_retried(proxy, home):
    bucket = home.bucket
    version = bucket.create("key", b"first")
    assert bucket.replace("key", b"second", version) is not None
    proxy.break_next(cut, times=3, methods=("GET",))
    assert bucket.read("other") is None
    proxy.break_next(cut, times=3, methods=("PUT",))
    assert bucket.create("key", b"third") is None
    proxy.break_next(cut, times=3, methods=("PUT",))
    assert bucket.replace("key", b"third", version) is None
    assert bucket.read("key").data == b"second"
    assert proxy.met == 9


@pytest.mark.parametrize("part", ["manifest", "parquet/"])
def test_a_successful_write_with_a_lost_response_is_success(part, proxy, home, tmp_path):
    proxy.break_next(lost_answer, methods=("PUT",), part=part)
    write_text_result(tmp_path / RESULT, "old")
    proxy.break_next(lost_answer, methods=("PUT",), part=part)
    write_text_result(tmp_path / RESULT, "new")
    assert read_result(tmp_path / RESULT) == b"new"
    assert home.names((tmp_path / RESULT).parent) == ["en.parquet"]
    assert proxy.met == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (busy, "the store fails or does not answer .* start the same run again"),
        (silent, "the store fails or does not answer"),
        (refused, "the store denies access. Give this process credentials"),
    ],
)
def test_a_permanent_store_fault_is_one_line_and_keeps_the_last_result(fault, message, proxy, home, tmp_path):
    write_text_result(tmp_path / RESULT, "old")
    proxy.break_next(fault, times=1_000, methods=("PUT",))
    with pytest.raises(StorageError, match=rf"^s3://bucket-[^\n]*{message}[^\n]*$"):
        write_text_result(tmp_path / RESULT, "new")
    proxy.faults.clear()
    assert read_result(tmp_path / RESULT) == b"old"
    assert [path.name for path in (tmp_path / RESULT).parent.glob(".*tmp")] == []


def test_an_upload_of_many_parts_that_is_cut_leaves_the_last_result(proxy, home, tmp_path):
    home.bucket.options["client_options"] = {"timeout": timedelta(minutes=1), "allow_http": True}
    write_text_result(tmp_path / RESULT, "old")

    def write() -> None:
        with write_result(tmp_path / RESULT) as temporary, temporary.open("wb") as file:
            file.truncate(20 << 20)

    proxy.break_next(busy, times=1_000, methods=("PUT",), part="partNumber=2")
    with pytest.raises(StorageError, match="the store fails"):
        write()
    proxy.faults.clear()
    assert read_result(tmp_path / RESULT) == b"old"
    write()
    assert read_result(tmp_path / RESULT) == bytes(20 << 20)


def test_bytes_corrupted_in_transit_are_refetched(proxy, home, tmp_path):
    write_text_result(tmp_path / RESULT, "content")
    (tmp_path / RESULT).unlink()
    proxy.break_next(flipped, methods=("GET",), part="parquet/")
    assert read_result(tmp_path / RESULT) == b"content"
    assert proxy.met == 1


def test_a_bucket_that_does_not_exist_is_one_line(s3):
    bucket = Bucket("s3://no-such-bucket/prefix", IMPATIENT)
    for ask in (lambda: bucket.read("key"), lambda: bucket.create("key", b""), bucket.listed):
        with pytest.raises(StorageError, match=r"^s3://no-such-bucket/prefix/.*this bucket does not exist. Create it"):
            ask()

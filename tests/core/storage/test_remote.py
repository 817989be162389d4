"""Copies of a home in a bucket, which are removed when they take more than their bound, and a server that is away."""

import os
import time
from logging import Handler
from pathlib import Path

import pytest

from disent_core.storage.files import manifest_path, remove_path
from disent_core.storage.patience import LONGEST_PAUSE, Patience, backoff, log
from disent_core.storage.remote import IN_USE_SECONDS, LruCache, touch

KB = 1000


@pytest.fixture
def home(tmp_path):
    """Copies of a home: a table used three hours ago, arrays two, a picture one and a half; and what stays."""
    home = tmp_path / "home"
    write(home / "tables/stage/en.parquet", hours=3)
    write(home / "cache/arrays/tiny/vectors-1/values.bin", "record.json", hours=2)
    write(home / "plots/tiny/losses.png", hours=1.5)
    write(home / "encoders/tiny/model.safetensors", "files.manifest", hours=9)
    write(home / "checkpoints/tiny.safetensors", hours=9)
    write(home / "downloads/sample.zip", "sample.part", hours=9)
    write(home / "dagster/runs.db", "dagster.yaml", hours=9)
    return home


def write(path: Path, small_name: str | None = None, *, hours: float) -> None:
    path.parent.mkdir(parents=True)
    small = manifest_path(path) if small_name is None else path.with_name(small_name)
    path.write_bytes(bytes(40 * KB))
    small.write_bytes(b"{}")
    for file in (path, small):
        os.utime(file, (time.time() - hours * 3600,) * 2)


def left(home: Path) -> set[str]:
    return {path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file()}


STAYS = {"encoders", "checkpoints", "downloads", "dagster"}


@pytest.mark.parametrize(
    ("kilobytes", "stays"),
    [(130, {"tables", "cache", "plots"}), (100, {"cache", "plots"}), (50, {"plots"}), (1, set())],
)
def test_the_cache_evicts_least_recently_used_results_first(home, kilobytes, stays):
    LruCache(home, kilobytes * KB).evict()
    assert left(home) == STAYS | stays


def test_the_cache_keeps_results_used_within_the_hour(home):
    touch(manifest_path(home / "tables/stage/en.parquet"))
    touch(home / "cache/arrays/tiny/vectors-1/record.json")
    LruCache(home, KB).evict()
    assert left(home) == STAYS | {"tables", "cache"}
    assert IN_USE_SECONDS == 3600


def test_a_process_checks_the_cache_at_most_once_a_minute(home):
    cache = LruCache(home, 130 * KB)
    cache.evict()
    cache.most = KB
    cache.evict()
    assert left(home) >= {"tables", "cache", "plots"}


def test_a_copy_that_another_process_removes_meanwhile_is_no_error(home, monkeypatch):
    copies = LruCache._copies

    def removed(self):
        for copy in copies(self):
            for path in copy:
                remove_path(path)
            yield copy

    monkeypatch.setattr(LruCache, "_copies", removed)
    LruCache(home, KB).evict()
    assert left(home) == STAYS


def server(*answers):
    """A request that gets these answers, and raises those that are errors."""
    left = iter(answers)

    def request():
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return request


def is_away(error):
    return isinstance(error, ConnectionError)


def test_an_outage_after_a_first_answer_is_waited_for_and_logged(caplog):
    pauses, clock = [], iter([100.0, 101.0, 105.0, 108.0])
    patience = Patience("the store", clock=lambda: next(clock), pause=pauses.append)
    request = server("first", *[ConnectionError("refused")] * 3, "second")
    assert [patience.ask(request, is_away) for _ in range(2)] == ["first", "second"]
    assert len(pauses) == 3
    assert caplog.messages == [
        "the store does not answer: waiting for it, up to 10 minutes",
        "the store answers again, after 8 s",
    ]


def test_a_server_without_a_first_answer_fails_at_once(caplog):
    patience = Patience("the store", pause=lambda _: pytest.fail("it waits"))
    with pytest.raises(ConnectionError):
        patience.ask(server(ConnectionError("refused")), is_away)
    assert caplog.messages == []


def test_an_error_response_is_raised_at_once_and_counts_as_an_answer():
    patience = Patience("the store", pause=lambda _: None)
    with pytest.raises(PermissionError):
        patience.ask(server(PermissionError("denied")), is_away)
    assert patience.ask(server(ConnectionError("refused"), "answer"), is_away) == "answer"


def test_concurrent_answer_and_wait_do_not_fail():
    patience = Patience("the store", has_answered=True, pause=lambda _: None)
    answered = Handler()
    answered.emit = lambda _: setattr(patience, "away_since", None)  # as the other thread does meanwhile
    log.addHandler(answered)
    try:
        assert patience.ask(server(ConnectionError("refused"), "answer"), is_away) == "answer"
    finally:
        log.removeHandler(answered)


def test_all_requests_of_a_process_wait_ten_minutes_together():
    clock = iter([0.0, 600.0, 601.0, 602.0, 603.0])
    patience = Patience("the store", has_answered=True, clock=lambda: next(clock), pause=lambda _: None)
    request = server(*[ConnectionError("refused")] * 4, "answer")
    for _ in range(2):
        with pytest.raises(ConnectionError):
            patience.ask(request, is_away)
    assert patience.ask(request, is_away) == "answer"
    assert patience.away_since is None


def test_pauses_double_up_to_a_limit_and_are_spread():
    for tries, limit in ((0, 1.0), (1, 2.0), (2, 4.0), (3, LONGEST_PAUSE), (10_000, LONGEST_PAUSE)):
        pauses = [backoff(tries, first=1.0, longest=LONGEST_PAUSE) for _ in range(200)]
        assert max(pauses) <= limit < 2 * max(pauses)
        assert min(pauses) < limit / 2

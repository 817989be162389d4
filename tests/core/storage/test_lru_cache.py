"""Copies of results are removed when they take more than their bound, those first that were used longest ago."""

import os
import time
from pathlib import Path

import pytest

from disent_core.storage.files import manifest_path, remove_path
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


def write(path: Path, beside: str | None = None, *, hours: float) -> None:
    """A file of 40 kB with its manifest, or a small file of another name beside it."""
    path.parent.mkdir(parents=True)
    small = manifest_path(path) if beside is None else path.with_name(beside)
    path.write_bytes(bytes(40 * KB))
    small.write_bytes(b"{}")
    for file in (path, small):
        os.utime(file, (time.time() - hours * 3600,) * 2)


def left(home: Path) -> set[str]:
    return {path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file()}


STAYS = {"encoders", "checkpoints", "downloads", "dagster"}


@pytest.mark.parametrize(
    ("kilobytes", "stays"),
    [
        (130, {"tables", "cache", "plots"}),
        (100, {"cache", "plots"}),
        (50, {"plots"}),
        (1, set()),
    ],
)
def test_what_was_used_longest_ago_is_removed_until_the_rest_fits(home, kilobytes, stays):
    LruCache(home, kilobytes * KB).evict()
    assert left(home) == STAYS | stays


def test_what_was_used_within_the_hour_stays_though_it_does_not_fit(home):
    touch(manifest_path(home / "tables/stage/en.parquet"))
    touch(home / "cache/arrays/tiny/vectors-1/record.json")
    LruCache(home, KB).evict()
    assert left(home) == STAYS | {"tables", "cache"}
    assert IN_USE_SECONDS == 3600


def test_a_process_looks_once_a_minute(home):
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

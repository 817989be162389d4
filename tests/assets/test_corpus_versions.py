"""Content hashes are computed again only if a file has changed."""

import os
import time
from pathlib import Path

import pytest

from disent_assets.run.corpus_versions import SETTLED, Observer, are_settled
from disent_core.corpora.paths import file_stats
from disent_core.errors import CorpusError


def later() -> int:
    """A time at which every file on the disk has settled."""
    return time.time_ns() + 2 * SETTLED


class Corpus:
    """A folder, a record and the number of hashes that were computed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record, self.hashed = folder / "corpus", folder / "cache" / "observed.json", 0
        self.write("en.txt", "one")

    def write(self, name: str, text: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def hash(self, clock=later, name="en") -> str | None:
        def read() -> str:
            self.hashed += 1
            return "+".join(sorted(path.read_text(encoding="utf-8") for path in self.folder.iterdir()))

        observer = Observer(self.record, clock)
        content = observer.hash_of(self.folder, name, read)
        observer.save()
        return content


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


def test_a_corpus_is_hashed_once_until_a_file_is_changed_added_or_deleted(corpus):
    assert [corpus.hash(), corpus.hash(), corpus.hash()] == ["one", "one", "one"]
    assert corpus.hashed == 1
    corpus.hash()
    corpus.write("en.txt", "another")
    assert corpus.hash() == "another"
    corpus.write("de.txt", "eins")
    assert corpus.hash() == "another+eins"
    (corpus.folder / "de.txt").unlink()
    assert corpus.hash() == "another"


def test_a_rewritten_file_of_the_same_size_and_time_is_not_missed(corpus):
    file = corpus.folder / "en.txt"
    before = file.stat()
    assert corpus.hash(clock=lambda: before.st_ctime_ns) == "one"  # hashed in the tick in which it was written
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert corpus.hash() == "two"


def test_a_rewritten_file_that_kept_its_old_time_is_not_missed(corpus):
    file = corpus.folder / "en.txt"
    os.utime(file, ns=(0, 0))
    corpus.hash()
    time.sleep(0.02)
    file.write_bytes(b"two")
    os.utime(file, ns=(0, 0))
    assert corpus.hash() == "two"


def test_young_files_are_hashed_every_time_until_they_have_settled(corpus):
    for _ in range(3):
        corpus.hash(clock=time.time_ns)
    assert corpus.hashed == 3
    corpus.hash()
    corpus.hash()
    assert corpus.hashed == 4


def test_a_file_that_changes_while_it_is_hashed_is_not_recorded(corpus):
    def read() -> str:
        corpus.write("en.txt", "changed meanwhile")
        return "one"

    observer = Observer(corpus.record, later)
    observer.hash_of(corpus.folder, "en", read)
    observer.save()
    assert corpus.hash() == "changed meanwhile"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": [1, 2]}', '{"a": null}', "\x00"])
def test_a_damaged_record_is_ignored(corpus, content):
    corpus.hash()
    corpus.record.write_text(content, encoding="utf-8")
    assert corpus.hash() == "one"
    assert corpus.hashed == 2


def test_an_unreadable_file_has_no_hash_and_is_not_read_again_until_it_changes(corpus):
    reads = []

    def read() -> str:
        reads.append(1)
        raise CorpusError("damaged")

    for _ in range(2):
        observer = Observer(corpus.record, later)
        assert observer.hash_of(corpus.folder, "en", read) is None
        observer.save()
    assert len(reads) == 1


def test_a_file_has_one_stamp_and_a_missing_path_none(corpus, tmp_path):
    assert [stamp[0] for stamp in file_stats(corpus.folder / "en.txt")] == [str(corpus.folder / "en.txt")]
    assert file_stats(tmp_path / "nowhere") == []


def test_each_name_of_a_path_has_its_own_hash(corpus):
    observer = Observer(corpus.record, later)
    assert [observer.hash_of(corpus.folder, name, lambda name=name: name) for name in ("en", "de")] == ["en", "de"]


def test_a_complete_save_drops_hashes_that_were_not_requested(corpus):
    corpus.hash(name="en")
    corpus.hash(name="de")
    corpus.hash(name="en")
    assert corpus.hashed == 3


def test_an_incomplete_save_keeps_the_earlier_hashes(corpus):
    corpus.hash(name="en")
    observer = Observer(corpus.record, later)
    observer.hash_of(corpus.folder, "de", lambda: "eins")
    observer.save(is_complete=False)
    corpus.hash(name="en")
    assert corpus.hashed == 1


def test_stamps_are_settled_two_seconds_after_the_last_change(corpus):
    file_stamps = file_stats(corpus.folder)
    changed = max(max(stamp[2:4]) for stamp in file_stamps)
    assert not are_settled(file_stamps, changed + SETTLED)
    assert are_settled(file_stamps, changed + SETTLED + 1)

"""Content hashes that are taken again only where a file has moved."""

import os
import time
from pathlib import Path

import pytest

from disent_assets.corpus_versions import SETTLED, Observer, are_settled, stamps
from disent_core.errors import CorpusError


def later() -> int:
    """A time at which whatever lies on the disk has settled."""
    return time.time_ns() + 2 * SETTLED


class Corpus:
    """A folder, a record and the number of hashes that were taken."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record, self.taken = folder / "corpus", folder / "cache" / "observed.json", 0
        self.write("en.txt", "one")

    def write(self, name: str, text: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def look(self, clock=later, name="en") -> str | None:
        def read() -> str:
            self.taken += 1
            return "+".join(sorted(path.read_text(encoding="utf-8") for path in self.folder.iterdir()))

        observer = Observer(self.record, clock)
        found = observer.hash_of(self.folder, name, read)
        observer.save()
        return found


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


def test_an_unchanged_corpus_is_hashed_once(corpus):
    assert [corpus.look(), corpus.look(), corpus.look()] == ["one", "one", "one"]
    assert corpus.taken == 1


def test_a_changed_file_is_hashed_again(corpus):
    corpus.look()
    corpus.write("en.txt", "another")
    assert corpus.look() == "another"


def test_a_new_file_is_seen(corpus):
    corpus.look()
    corpus.write("de.txt", "eins")
    assert corpus.look() == "eins+one"


def test_a_file_that_is_gone_is_seen(corpus):
    corpus.write("de.txt", "eins")
    corpus.look()
    (corpus.folder / "de.txt").unlink()
    assert corpus.look() == "one"


def test_a_rewritten_file_of_the_same_size_and_time_is_not_missed(corpus):
    file = corpus.folder / "en.txt"
    before = file.stat()
    assert corpus.look(clock=lambda: before.st_ctime_ns) == "one"  # hashed in the tick in which it was written
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert corpus.look() == "two"


def test_a_rewritten_file_that_kept_its_old_time_is_not_missed(corpus):
    file = corpus.folder / "en.txt"
    os.utime(file, ns=(0, 0))
    corpus.look()
    time.sleep(0.02)
    file.write_bytes(b"two")
    os.utime(file, ns=(0, 0))
    assert corpus.look() == "two"


def test_young_files_are_hashed_every_time_until_they_have_settled(corpus):
    for _ in range(3):
        corpus.look(clock=time.time_ns)
    assert corpus.taken == 3
    corpus.look()
    corpus.look()
    assert corpus.taken == 4


def test_a_file_that_changes_while_it_is_hashed_is_not_recorded(corpus):
    def read() -> str:
        corpus.write("en.txt", "changed meanwhile")
        return "one"

    observer = Observer(corpus.record, later)
    observer.hash_of(corpus.folder, "en", read)
    observer.save()
    assert corpus.look() == "changed meanwhile"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": [1, 2]}', '{"a": null}', "\x00"])
def test_a_damaged_record_is_as_none(corpus, content):
    corpus.look()
    corpus.record.write_text(content, encoding="utf-8")
    assert corpus.look() == "one"
    assert corpus.taken == 2


def test_what_cannot_be_read_has_no_hash_and_is_not_read_again_before_it_moves(corpus):
    tries = []

    def read() -> str:
        tries.append(1)
        raise CorpusError("damaged")

    for _ in range(2):
        observer = Observer(corpus.record, later)
        assert observer.hash_of(corpus.folder, "en", read) is None
        observer.save()
    assert len(tries) == 1


def test_a_missing_path_has_no_stamps(tmp_path):
    assert stamps(tmp_path / "nowhere") == []


def test_a_single_file_is_its_own_tree(corpus):
    assert [stamp[0] for stamp in stamps(corpus.folder / "en.txt")] == [str(corpus.folder / "en.txt")]


def test_names_of_one_path_have_hashes_of_their_own(corpus):
    observer = Observer(corpus.record, later)
    assert [observer.hash_of(corpus.folder, name, lambda name=name: name) for name in ("en", "de")] == ["en", "de"]


def test_a_whole_look_forgets_what_is_no_longer_asked_for(corpus):
    corpus.look(name="en")
    corpus.look(name="de")
    corpus.look(name="en")
    assert corpus.taken == 3


def test_a_look_that_was_broken_off_keeps_what_is_known(corpus):
    corpus.look(name="en")
    observer = Observer(corpus.record, later)
    observer.hash_of(corpus.folder, "de", lambda: "eins")
    observer.save(is_whole=False)
    corpus.look(name="en")
    assert corpus.taken == 1


def test_stamps_are_settled_two_seconds_after_the_last_change(corpus):
    found = stamps(corpus.folder)
    changed = max(max(stamp[2:4]) for stamp in found)
    assert not are_settled(found, changed + SETTLED)
    assert are_settled(found, changed + SETTLED + 1)

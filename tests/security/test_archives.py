"""An archive can neither write outside its folder nor fill the memory."""

import bz2
import gzip
import io
import lzma
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from disent_core.corpora.formats.massive import data_files, read_data_file
from disent_core.errors import CorpusError
from disent_core.storage import archives

NAME = "1.1/data/en-US.jsonl"


def header(name, size, kind=tarfile.REGTYPE, **more):
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    for key, value in more.items():
        setattr(member, key, value)
    return member.tobuf(tarfile.PAX_FORMAT)


def padded(content):
    return content + b"\0" * (-len(content) % 512)


def written(tmp_path, content, pack=gzip.compress):
    path = tmp_path / "m.tar.gz"
    path.write_bytes(pack(content + b"\0" * 1024))
    return path


GOOD = header(NAME, 2) + padded(b"ok")


def read(path):
    return read_data_file(path, "en-US.jsonl")[1]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_every_compression_is_read(tmp_path, pack):
    assert read(written(tmp_path, GOOD, pack)) == b"ok"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE,
                                  tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE])  # fmt: skip
def test_non_regular_archive_members_are_ignored(tmp_path, kind):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = written(tmp_path, header(NAME, 0, kind, linkname=str(secret), devmajor=1, devminor=5))
    with pytest.raises(CorpusError):
        read(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.tar.gz", "secret"]


@pytest.mark.parametrize("name", ["../data/en-US.jsonl", "/../data/en-US.jsonl", "data/../../data/en-US.jsonl"])
def test_archive_members_with_path_traversal_are_ignored(tmp_path, name):
    with pytest.raises(CorpusError, match="it has no file en-US"):
        read(written(tmp_path, header(name, 2) + padded(b"no")))


def test_an_absolute_member_name_is_read_only_within_the_archive(tmp_path):
    assert read(written(tmp_path, header("/data/en-US.jsonl", 2) + padded(b"ok"))) == b"ok"


BOMB = 70 << 20


def quick_lzma(content):
    return lzma.compress(content, preset=0)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, quick_lzma])
@pytest.mark.parametrize("name", [NAME, "elsewhere"])
def test_a_member_that_holds_far_more_than_its_packed_size_is_refused(tmp_path, pack, name):
    path = written(tmp_path, header(name, BOMB) + b"\0" * BOMB, pack)
    tracemalloc.start()
    with pytest.raises(CorpusError, match="unpacks to more than 64 MB"):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("size", [1 << 27, 1 << 32, 8**11 - 1])
def test_a_false_member_size_allocates_no_memory(tmp_path, kind, size):
    began = time.monotonic()
    tracemalloc.start()
    with pytest.raises(CorpusError, match=r"unpacks to more than|claims|not a whole tar archive"):
        read(written(tmp_path, header(NAME, size, kind) + b"x" * 512))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20
    assert time.monotonic() - began < 5


def zipped():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("data/en-US.jsonl", "x")
    return packed.getvalue()


def extended(record):
    return header("x", len(record), tarfile.XHDTYPE) + padded(record)


DAMAGE = {
    "headers one before the other without end": (header("x", 4, tarfile.GNUTYPE_LONGNAME) + padded(b"name")) * 3_000,
    "an extended header without a size": extended(b"19 GNU.sparse.size=\n"),
    "an extended header with a letter for a number": extended(b"22 GNU.sparse.map=1,x\n"),
}


@pytest.mark.parametrize("content", [*(header + GOOD for header in DAMAGE.values()), zipped()], ids=[*DAMAGE, "zip"])
def test_a_damaged_tar_archive_is_refused(tmp_path, content):
    with pytest.raises(CorpusError, match="not a whole tar archive"):
        read(written(tmp_path, content, bytes))


def test_an_archive_of_very_many_members_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    with pytest.raises(CorpusError, match="more than 3 members"):
        data_files(written(tmp_path, GOOD * 4))
    assert data_files(written(tmp_path, GOOD * 3)) == {"en-US.jsonl"}


def test_a_symlink_in_an_unpacked_folder_is_followed(tmp_path):
    (tmp_path / "elsewhere.jsonl").write_text("ok")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/en-US.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    assert read(tmp_path) == b"ok"

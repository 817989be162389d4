"""Downloads from a server on this machine that can break off, ignore ranges or change its file."""

import contextlib
import hashlib
import logging
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from disent_core.errors import CorpusError
from disent_core.storage import download
from disent_core.storage.download import fetch

CONTENT = bytes(range(256)) * 4_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Site:
    """What the server does: `breaks` holds after how many bytes each of the next answers stops."""

    def __init__(self):
        self.content, self.etag, self.ranges, self.breaks = CONTENT, '"1"', True, []
        self.asked, self.refusals = [], []
        self.length, self.redirect, self.is_endless = None, None, False

    def answer(self, request):
        asked = request.headers.get("Range")
        self.asked.append(asked)
        same = request.headers.get("If-Range") in (None, self.etag)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges and same else 0
        if request.path != "/file":
            return request.send_error(404)
        if self.redirect:
            request.send_response(302)
            request.send_header("Location", self.redirect)
            return request.end_headers()
        if self.refusals:
            return request.send_error(self.refusals.pop(0))
        if start and start >= len(self.content):
            return request.send_error(416)
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.etag:
            request.send_header("ETag", self.etag)
        if not self.is_endless:
            request.send_header("Content-Length", self.length or str(len(self.content) - start))
        request.end_headers()
        for _ in range(20 if self.is_endless else 0):  # an end for the disk, should the bound be lost
            request.wfile.write(self.content)
        stop = start + self.breaks.pop(0) if self.breaks else len(self.content)
        request.wfile.write(self.content[start:stop])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(download, "_PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
def site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(ConnectionError):
                site.answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    site.url = f"http://127.0.0.1:{server.server_port}/file"
    yield site
    server.shutdown()
    server.server_close()


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_whole_file_arrives_under_its_name_alone(site, tmp_path):
    assert fetch(site.url, tmp_path / "sub" / "f", sha256=DIGEST, size=len(CONTENT)).read_bytes() == CONTENT
    assert visible(tmp_path / "sub") == ["f"]


@pytest.mark.parametrize("sha256", [None, DIGEST, DIGEST.upper()])
def test_an_existing_file_is_not_downloaded(site, tmp_path, sha256):
    (tmp_path / "f").write_bytes(CONTENT)
    fetch(site.url, tmp_path / "f", sha256=sha256)
    assert site.asked == []


def answering(**changed):
    return lambda site, path: vars(site).update(changed)


STARTS = {
    "a damaged file": lambda site, path: path.write_bytes(b"damaged"),
    "a leftover longer than the file": lambda site, path: path.with_name("f.part").write_bytes(CONTENT + b"more"),
    "a server that ignores ranges": answering(ranges=False, breaks=[300_000]),
    "a busy server": answering(refusals=[503, 429]),
    **{f"length {length[:5]}": answering(length=length) for length in ("abc", "-5", "9" * 5_000)},
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_every_partial_file_and_server_response_ends_in_the_whole_file(site, tmp_path, start):
    start(site, tmp_path / "f")
    assert fetch(site.url, tmp_path / "f", sha256=DIGEST).read_bytes() == CONTENT


def test_a_broken_download_resumes_at_its_offset(site, tmp_path):
    site.breaks = [300_000, 1_000]
    fetch(site.url, tmp_path / "f", sha256=None)
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert site.asked == [None, "bytes=300000-", "bytes=301000-"]


@pytest.mark.parametrize("change", [{}, {"content": CONTENT[::-1], "etag": '"2"'}], ids=["same", "changed"])
def test_a_later_call_resumes_unless_the_remote_file_changed(site, tmp_path, monkeypatch, change):
    monkeypatch.setattr(download, "_PAUSES", ())
    site.breaks = [300_000, 0]
    with pytest.raises(
        CorpusError, match=r"the download failed \(connection closed after 300,000 of 1,024,000 bytes\)"
    ):
        fetch(site.url, tmp_path / "f")
    assert not (tmp_path / "f").exists()
    vars(site).update(change)
    assert fetch(site.url, tmp_path / "f").read_bytes() == site.content
    assert site.asked[-1] == "bytes=300000-"


@pytest.mark.parametrize("sha256", [None, DIGEST])
def test_without_an_etag_only_a_checksum_allows_resuming(site, tmp_path, sha256):
    site.etag, site.breaks = None, [300_000]
    assert fetch(site.url, tmp_path / "f", sha256=sha256).read_bytes() == CONTENT
    assert site.asked == [None, "bytes=300000-" if sha256 else None]


@pytest.mark.parametrize(
    ("expected", "message"),
    [({"sha256": "0" * 64}, "its SHA-256 is .*, expected 000"), ({"size": 7}, "1,024,000 bytes, expected 7")],
)
def test_an_unexpected_file_is_an_error_and_is_deleted(site, tmp_path, expected, message):
    with pytest.raises(CorpusError, match=f"not the expected file: .*{message}"):
        fetch(site.url, tmp_path / "f", **expected)
    assert "f" not in visible(tmp_path)
    assert "f.part" not in visible(tmp_path)


@pytest.mark.parametrize("size", [10, None])
def test_an_endless_download_stops_at_the_size_limit(site, tmp_path, monkeypatch, size):
    monkeypatch.setattr(download, "MOST_BYTES", 300_000)
    site.is_endless = True
    expected = (
        "it has more than 10 bytes, expected 10" if size else "the limit is 300,000. If it is the right file, set"
    )
    with pytest.raises(CorpusError, match=expected):
        fetch(site.url, tmp_path / "f", size=size)
    assert "f.part" not in visible(tmp_path)
    assert len(site.asked) == 1


def test_a_download_with_an_excessive_content_length_is_not_started(site, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "_copy", None)
    site.length = "10000000000000"
    with pytest.raises(CorpusError, match="it has 10,000,000,000,000 bytes; the limit is 10,737,418,240"):
        fetch(site.url, tmp_path / "f")


@pytest.mark.parametrize("address", ["file:///etc/passwd", "data:,x", "//["])
def test_a_redirect_to_another_scheme_is_not_followed(site, tmp_path, address):
    site.redirect = address
    with pytest.raises(CorpusError, match=r"the server redirects from http to .*, which is not followed"):
        fetch(site.url, tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_a_download_from_a_slow_server_is_aborted(site, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "_WITHIN_SECONDS", 0.0)
    site.content = b"slow"
    with pytest.raises(CorpusError, match="the server sent 4 bytes in 0 s"):
        fetch(site.url, tmp_path / "f")
    assert len(site.asked) == 1


def test_a_download_that_breaks_after_each_byte_is_aborted(site, tmp_path):
    site.breaks = [1] * 100
    with pytest.raises(CorpusError, match="the download failed"):
        fetch(site.url, tmp_path / "f")
    assert len(site.asked) == 4


def test_an_absent_page_is_an_error_with_its_status_and_the_place_for_the_file(site, tmp_path):
    with pytest.raises(CorpusError, match=r"/nothing: the server says 404 .* the file there yourself: ") as raised:
        fetch(site.url.replace("/file", "/nothing"), tmp_path / "f.tar.gz")
    assert str(raised.value).endswith(f": {tmp_path / 'f.tar.gz'}")
    assert len(site.asked) == 1


def test_an_unreachable_server_is_retried_and_url_secrets_are_hidden(tmp_path, caplog):
    with pytest.raises(CorpusError, match=r"^http://127\.0\.0\.1:9/file\.zip: the download failed .*refused"):
        fetch("http://127.0.0.1:9/file.zip?X-Amz-Signature=planted", tmp_path / "file.zip")
    assert (caplog.text.count("trying again in"), len(caplog.messages)) == (3, 3)
    assert "planted" not in caplog.text
    with pytest.raises(ValueError, match="url has a name and a password, which are not sent"):
        download.file_name("http://me:planted@host/file.zip")


def test_a_file_address_is_copied_and_other_schemes_are_refused(tmp_path):
    with pytest.raises(CorpusError, match="Use http, https, file, s3, gs, az"):
        fetch("ftp://127.0.0.1/file", tmp_path / "f")
    (tmp_path / "there").write_bytes(CONTENT)
    assert fetch((tmp_path / "there").as_uri(), tmp_path / "f", sha256=DIGEST).read_bytes() == CONTENT


def test_calls_at_the_same_time_download_once(site, tmp_path):
    threads = [threading.Thread(target=fetch, args=(site.url, tmp_path / "f")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(site.asked) == 1
    assert (tmp_path / "f").read_bytes() == CONTENT


def test_progress_is_logged_with_rate_and_remaining_time(site, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("disent_core.progress.SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "disent_core"):
        fetch(site.url, tmp_path / "f")
    assert any(re.fullmatch(r"f\.part: 1 of 1 MB, [0-9.]+ a second, 0 s left", line) for line in caplog.messages)

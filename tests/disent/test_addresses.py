"""`disent.load` of an address: an archive that has the checksum asked for, from a server on this machine."""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from static_models import static_model

import disent
from disent.extras import TRAIN
from disent.model import HEAD_RECORD
from disent_assets.cli import main
from disent_core.errors import DamagedError
from disent_core.storage import download, weights

ROOT = Path(__file__).resolve().parents[2]


class Site:
    """A folder that is served; `asked` has the paths of all requests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, []

    def put(self, name: str, content: bytes) -> tuple[str, str]:
        """Serve a file, and return its address and checksum."""
        (self.folder / name).write_bytes(content)
        return f"{self.address}/{name}", hashlib.sha256(content).hexdigest()


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "_PAUSES", ())
    monkeypatch.setenv("DISENT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "served").mkdir()
    site = Site(tmp_path / "served")

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            site.asked.append(self.path)
            with contextlib.suppress(ConnectionError):
                super().do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site.folder)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    site.address = f"http://127.0.0.1:{server.server_port}"
    yield site
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    """Files of a model, by name."""
    folder = tmp_path_factory.mktemp("model") / "mine"
    static_model("mine").save(folder)
    return {f"mine/{file.name}": file.read_bytes() for file in folder.iterdir()}


def tar_of(files: dict[str, bytes], *members: tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member)
    return packed.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def at_the_root(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"./{Path(name).name}": content for name, content in files.items()}


PACKED = {
    "a folder in a tar.gz": ("m.tar.gz", tar_of),
    "files at the root of a tar": ("m.tar", lambda files: tar_of(at_the_root(files), mode="w")),
    "a zip": ("m.zip", zip_of),
    "a wheel": ("mine-1-py3-none-any.whl", lambda files: zip_of(files | {"mine-1.dist-info/METADATA": b"Name: mine"})),
}


@pytest.mark.parametrize(("name", "pack"), PACKED.values(), ids=PACKED)
def test_a_model_archive_loads_the_saved_model_and_is_downloaded_once(site, files, name, pack):
    url, sha256 = site.put(name, pack(files))
    model = disent.load(url, sha256=sha256.upper())
    assert np.array_equal(model.encode(["wake me up"]), static_model("mine").encode(["wake me up"]))
    again = disent.load(f"http://127.0.0.1:9/{name}", sha256=sha256)  # where nobody answers
    assert again.fingerprint == model.fingerprint
    assert site.asked == [f"/{name}"]
    left = {path.name for path in (site.folder.parent / "cache" / "models").iterdir() if path.name[0] != "."}
    assert left == {sha256}


@pytest.mark.parametrize(("sha256", "remedy"), [
    (None, "m.tar.gz: it is downloaded only with its checksum. Pass disent.load"),
    ("12ab", "has 64 hexadecimal digits"),
    ("g" * 64, "has 64 hexadecimal digits"),
])  # fmt: skip
def test_without_a_checksum_nothing_is_downloaded(site, files, sha256, remedy):
    url, _ = site.put("m.tar.gz", tar_of(files))
    with pytest.raises(ValueError, match=remedy) as error:
        disent.load(url, sha256=sha256)
    assert "\n" not in str(error.value)
    assert not site.asked


def test_unsupported_urls_passwords_and_checksums_of_folders_are_refused(site, tmp_path):
    for url, problem in (("ftp://host/m.tar.gz", "an https:// URL"), ("https://me:secret@host/m.zip", "not sent")):
        with pytest.raises(ValueError, match=problem) as error:
            disent.load(url, sha256="0" * 64)
        assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match="leave it out"):
        disent.load(tmp_path, sha256="0" * 64)


def link(name: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


BAD = {
    "a page": (lambda _: b"<html>Please log in</html>", "not a whole tar archive"),
    "a page that says it is a zip": (lambda _: b"PK\3\4<html>", "not a whole zip archive"),
    "an archive that is cut": (lambda files: tar_of(files)[:-20], "not a whole tar archive"),
    "no model": (lambda _: tar_of({"mine/README.md": b"x"}), "; found none"),
    "two models": (
        lambda files: tar_of(files | {name.replace("mine", "other"): files[name] for name in files}),
        "; found 2",
    ),
    "a name that climbs": (lambda files: tar_of(files | {"../out": b"x"}), "'..' can't be part of a path"),
    "a name that climbs in a zip": (lambda files: zip_of(files | {"mine/../../out": b"x"}), "can't be part"),
    "an absolute name": (lambda files: tar_of(files | {"/tmp/out": b"x"}), "'/' can't be part of a path"),
    "a name of a drive": (lambda files: zip_of(files | {"C:\\out": b"x"}), "can't be part of a path"),
    "a link": (lambda files: tar_of(files, link("mine/link")), "'mine/link' is a link or a device"),
    "a hard link": (lambda files: tar_of(files, link("mine/link", tarfile.LNKTYPE)), "is a link or a device"),
    "a name twice": (lambda files: zip_of({**files, "mine/README.md/x": b"x"}), "not a whole zip archive"),
    "a bomb": (lambda files: tar_of(files | {"mine/zeros": bytes(70 << 20)}), "unpacks to more than 64 MB"),
    "a bomb in a zip": (lambda files: zip_of(files | {"mine/zeros": bytes(70 << 20)}), "unpacks to more than 64 MB"),
}


@pytest.mark.parametrize(("pack", "problem"), BAD.values(), ids=BAD)
def test_an_invalid_model_archive_is_refused_in_one_line_and_leaves_nothing(site, files, pack, problem):
    url, sha256 = site.put("m.tar.gz", pack(files))
    with pytest.raises(DamagedError) as error:
        disent.load(url, sha256=sha256)
    message = str(error.value)
    assert message.startswith(f"{url}: ")
    assert problem in message
    assert "\n" not in message
    assert {path.name for path in site.folder.parent.iterdir()} == {"served", "cache"}
    assert all(path.name.endswith(".lock") for path in (site.folder.parent / "cache" / "models").iterdir())


def test_a_link_in_a_zip_is_refused(site, files):
    packed = io.BytesIO(zip_of(files))
    with zipfile.ZipFile(packed, "a") as archive:
        member = zipfile.ZipInfo("mine/link")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    url, sha256 = site.put("m.zip", packed.getvalue())
    with pytest.raises(DamagedError, match="'mine/link' is a link or a device"):
        disent.load(url, sha256=sha256)


def test_another_file_than_the_checksum_s_is_not_opened(site, files, monkeypatch):
    monkeypatch.setattr("disent_core.storage.archives.unpack", None)  # a call fails
    url, _ = site.put("m.tar.gz", tar_of(files))
    with pytest.raises(DamagedError, match=r"m.tar.gz: this is not the expected file: its SHA-256 is .* Try again"):
        disent.load(url, sha256="0" * 64)
    with pytest.raises(DamagedError, match=r"none.zip: the server says 404 .* put the file there yourself"):
        disent.load(f"{site.address}/none.zip", sha256="0" * 64)


def test_a_model_that_was_damaged_in_the_cache_says_which_folder_to_delete(site, files):
    url, sha256 = site.put("m.tar.gz", tar_of(files))
    path = disent.load(url, sha256=sha256).path
    (path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(DamagedError, match=f"delete .*{sha256}/mine to download it again"):
        disent.load(url, sha256=sha256)
    shutil.rmtree(path)
    assert disent.load(url, sha256=sha256).path == path


def command(*words) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


def test_commands_accept_a_model_url_with_its_checksum(site, files, tmp_path):
    url, sha256 = site.put("m.tar.gz", tar_of(files))
    texts, vectors, index = tmp_path / "texts.txt", tmp_path / "vectors.npy", tmp_path / "index"
    texts.write_text("wake me up\nplay jazz\n", encoding="utf-8")
    of_model = ("--head", url, "--sha256", sha256)
    assert command("embed", texts, vectors, "--embedding", "shape", *of_model)[0] == 0
    assert np.array_equal(np.load(vectors), static_model("mine").encode(["wake me up", "play jazz"], "shape"))
    assert command("check", url, "--sha256", sha256)[0] == 0
    assert command("index", texts, index, *of_model)[0] == 0
    assert command("search", index, "play jazz", *of_model)[0] == command("shapes", texts, *of_model)[0] == 0
    assert site.asked == ["/m.tar.gz"]
    (tmp_path / "pairs.csv").write_text("en,de\nwake me,weck mich\n", encoding="utf-8")
    code, shown = command("train", tmp_path / "pairs.csv", tmp_path / "new", "--extend", url, "--sha256", sha256)
    assert code == 1
    assert "to add a language, the table needs it" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["embed", "{texts}", "out.npy", "--head", "{url}"], "its checksum. Pass --sha256 DIGEST, the checksum its"),
        (["check", "{url}"], "it is downloaded only with its checksum"),
        (["embed", "{texts}", "out.npy", "--head", "small", "--sha256", "0" * 64], "--sha256 is the checksum of"),
        (["check", "{texts}", "--sha256", "0" * 64], "--sha256 is the checksum of an archive at a URL"),
        (["index", "{texts}", "index", "--sha256", "0" * 64], "checksum of a model at a URL; name the URL too"),
        (["search", "index", "x", "--sha256", "0" * 64], "checksum of a model at a URL; name the URL too"),
        (["train", "{texts}", "new", "--sha256", "0" * 64], "checksum of a model at a URL; name the URL too"),
    ],
)
def test_commands_refuse_a_url_or_a_checksum_alone(site, files, tmp_path, monkeypatch, words, problem):
    monkeypatch.chdir(tmp_path)
    url, _ = site.put("m.tar.gz", tar_of(files))
    (tmp_path / "texts.txt").write_text("wake me up\n", encoding="utf-8")
    code, shown = command(*(word.format(url=url, texts="texts.txt") for word in words))
    assert code == 2
    assert problem in shown
    assert not site.asked


def test_numpy_suffices(site, files):
    url, sha256 = site.put("m.tar.gz", tar_of(files))
    code = f"""
import sys
sys.modules |= dict.fromkeys({sorted(TRAIN)})  # None: an import of them fails
import disent
print({{"tarfile", "urllib.request"}} & set(sys.modules))
print(disent.load({url!r}, sha256={sha256!r}).encode("wake me up").shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n(16,)\n"


def test_the_export_record_marks_an_exported_folder():
    assert weights.INDEX == HEAD_RECORD

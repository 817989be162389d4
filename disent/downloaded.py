"""Get a model from a URL: download its archive once, check it before opening it, and keep it unpacked."""

from contextlib import suppress
from pathlib import Path
from string import hexdigits
from urllib.parse import urlsplit

from disent.extras import needing_extra
from disent.home import cache_folder
from disent_core.errors import CorpusError, DamagedError, located
from disent_core.static_folder import RECORD

RECORDS = (RECORD, "disent_head.json")
"""Files that mark a model's folder: a static model's, and that of a head written by `disent export`."""


def downloaded(url: str, sha256: str | None) -> Path:
    """Return the folder of the model in an archive; download the archive unless an earlier call has unpacked it.

    Raises:
        ValueError: if there is no checksum, or the URL is neither http nor https.
        DamagedError: if the archive can't be downloaded or unpacked, has another checksum, or has no model.
    """
    with needing_extra("cli"):  # for the locks of Windows
        from disent_core.storage.archives import ArchiveError, unpack
        from disent_core.storage.download import fetch, file_name, shown
        from disent_core.storage.files import locked, replacing_folder

    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{shown(url)} can't be loaded; give an https:// URL, or download it and give its folder")
    file_name(url)
    if sha256 is None or len(sha256) != 64 or not set(sha256) <= set(hexdigits):
        what = "it is downloaded only with its checksum" if sha256 is None else "a SHA-256 has 64 hexadecimal digits"
        remedy = "Pass disent.load(..., sha256=) the checksum its publisher states; `sha256sum FILE` prints a file's"
        raise ValueError(located(shown(url), None, what, remedy))
    folder = cache_folder() / "models" / sha256.lower()
    archive = folder.with_suffix(".archive")
    with locked(folder):
        with suppress(LookupError):
            return _model_in(folder)
        try:
            fetch(url, archive, sha256=sha256)
            with replacing_folder(folder) as temporary:
                temporary.mkdir()
                unpack(archive, temporary)
                _model_in(temporary)
        except CorpusError as error:
            raise DamagedError(str(error)) from error
        except (ArchiveError, LookupError) as error:
            remedy = "The file has the given checksum: ask whoever gave you the address for the right one"
            raise DamagedError(located(shown(url), None, str(error), remedy)) from error
        finally:
            archive.unlink(missing_ok=True)
        return _model_in(folder)


def _model_in(folder: Path) -> Path:
    """Return the outermost model folder inside a folder; raise LookupError unless there is exactly one."""
    of_depth: dict[int, set[Path]] = {}
    for name in RECORDS:
        for path in folder.rglob(name):
            of_depth.setdefault(len(path.parts), set()).add(path.parent)
    outermost = of_depth[min(of_depth)] if of_depth else set()
    if len(outermost) != 1:
        raise LookupError(f"expected one model folder, with {' or '.join(RECORDS)}; found {len(outermost) or 'none'}")
    return outermost.pop()

"""One file out of a published archive, or out of the folder that it was unpacked to."""

import lzma
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from disent_core.corpora.paths import absent, missing
from disent_core.errors import CorpusError, located

_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError)


def read_data_file(path: Path, name: str) -> tuple[str, bytes]:
    """Place (for messages) and content of the file `data/NAME`.

    Args:
        path: a tar archive, compressed or not; or the folder `data`, the one around it, or one further up.
        name: of the file, e.g. `en-US.jsonl`.

    Raises:
        CorpusError: if the path or the file does not exist or can't be read to its end.
    """
    if path.is_dir():
        return _from_folder(path, name)
    if path.is_file():
        return _from_archive(path, name)
    raise missing(path)


def data_files(path: Path) -> set[str]:
    """Names of the files in the folder `data`, of an archive or unpacked.

    Raises:
        CorpusError: if the path does not exist, or the archive can't be read to its end.
    """
    if path.is_dir():
        return {file.name for folder in _folders(path) for file in folder.glob("*") if file.is_file()}
    if path.is_file():
        return set(_members(path))
    raise missing(path)


def _folders(path: Path) -> list[Path]:
    """Where the files may lie: the newest version first, where versions lie side by side."""
    return [path, path / "data", *sorted(path.glob("*/data"), reverse=True)]


def _from_folder(path: Path, name: str) -> tuple[str, bytes]:
    folders = _folders(path)
    for folder in folders:
        if (folder / name).is_file():
            try:
                return str(folder / name), (folder / name).read_bytes()
            except OSError as error:
                remedy = "Check the rights of the file and the disk"
                raise CorpusError(located(folder / name, None, f"can't be read ({error})", remedy)) from error
    there = [file.name for folder in folders for file in folder.glob(f"*{PurePosixPath(name).suffix}")]
    raise _absent(path, name, there)


def _from_archive(path: Path, name: str) -> tuple[str, bytes]:
    members = _members(path, name)
    found = members.get(name)
    if found is None:
        raise _absent(path, name, list(members))
    return found


def _members(path: Path, wanted: str | None = None) -> dict[str, tuple[str, bytes] | None]:
    """Files in a folder `data` of the archive by name, with the place and content of the one that is wanted.

    Reads to the end even after a hit: the check sum of a compressed archive comes last.
    """
    members: dict[str, tuple[str, bytes] | None] = {}
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if not member.isreg() or ".." in parts or parts[-2:-1] != ("data",):
                    continue
                content = archive.extractfile(member) if parts[-1] == wanted else None
                members[parts[-1]] = (f"{path}:{member.name}", content.read()) if content else None
            while archive.fileobj and archive.fileobj.read(1 << 20):
                pass
    except _DAMAGE as error:
        remedy = "Download the archive again"
        raise CorpusError(located(path, None, f"not a whole tar archive ({error})", remedy)) from error
    return members


def _absent(path: Path, name: str, there: list[str]) -> CorpusError:
    suffix = PurePosixPath(name).suffix
    stems = {PurePosixPath(file).stem for file in there if PurePosixPath(file).suffix == suffix}
    return absent(path, f"data/{name}", stems)

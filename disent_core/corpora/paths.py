"""Where a corpus should lie: what readers of every format say when something is not there."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from disent_core.errors import CorpusError, located


def missing(path: Path, kind: Literal["file", "folder", "file or folder"] = "file or folder") -> CorpusError:
    """The error of a path that does not exist."""
    remedy = "Check the path of this corpus in the configuration"
    return CorpusError(located(path, None, f"this {kind} does not exist", remedy))


def check_folder(path: Path) -> None:
    """Nothing, if the folder is there.

    Raises:
        CorpusError: if it does not exist.
    """
    if not path.is_dir():
        raise missing(path, "folder")


def absent(path: Path, what: str, there: Iterable[str]) -> CorpusError:
    """The error of `what` (`the pair 'en-fr'`) not being among what a path has, which it tells, sorted."""
    has = ", ".join(sorted(there)) or "no such files at all: is this the right path?"
    return CorpusError(located(path, None, f"{what} is not in it", f"It has {has}"))


def split_files(
    path: Path, what: str, name: str, found: Mapping[str, Mapping[str, Path]], splits: Iterable[str]
) -> dict[str, Path]:
    """Split -> file of one language or pair, in the order of `splits`.

    Args:
        path: of the corpus, for the message.
        what: is looked for, for the message.
        name: of it, among those that were found.
        found: name -> split -> file.
        splits: their names as published, in the order of rows.

    Raises:
        CorpusError: if it was not found.
    """
    if name not in found:
        raise absent(path, what, found)
    return {split: found[name][split] for split in splits if split in found[name]}

"""Find the code that the UI opens in an editor for an asset, without loading its modules."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import dagster as dg


def code_references(places: Sequence[str]) -> dg.CodeReferencesMetadataValue:
    """Return the lines of functions and other parts of modules, `module:ATTRIBUTE` or `module`."""
    with _beta():
        references = map(_reference, places)
        return dg.CodeReferencesMetadataValue(code_references=[reference for reference in references if reference])


def file_reference(path: Path) -> dg.CodeReferencesMetadataValue:
    """Return a reference to the beginning of a file."""
    with _beta():
        reference = dg.LocalFileCodeReference(file_path=str(path.absolute()), line_number=1, label=path.name)
        return dg.CodeReferencesMetadataValue(code_references=[reference])


@contextmanager
def _beta() -> Iterator[None]:
    """Suppress Dagster's warnings that these classes may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield


@cache
def _reference(place: str) -> dg.LocalFileCodeReference | None:
    module, _, name = place.partition(":")
    origin = (spec := find_spec(module)) and spec.origin
    if not origin or not Path(origin).is_file():  # a module without a file
        return None
    lines = Path(origin).read_text(encoding="utf-8").splitlines() if name else []
    line = next((number for number, text in enumerate(lines, 1) if name in _defined(text)), 1)
    return dg.LocalFileCodeReference(file_path=origin, line_number=line, label=place.rpartition(".")[2])


def _defined(line: str) -> Sequence[str]:
    """Return the names defined by a top-level line of a module."""
    words = line.replace("(", " ").replace(":", " ").replace(",", " ").replace("[", " ").split()
    if words[:1] in (["def"], ["class"]):
        return words[1:2]
    return words[: words.index("=")] if "=" in words and line[:1].isalpha() else ()

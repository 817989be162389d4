"""Turn results of steps into what the UI shows: data version, row counts, checks, pictures.

Belongs here: how results are shown. Does not: how they are computed.
"""

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import dagster as dg

from disent_assets.run.error_messages import description_of
from disent_assets.run.step import MADE
from disent_assets.settings.environment import value
from disent_assets.settings.profiles import database_errors
from disent_core.errors import TransientError
from disent_core.lineage.result import Check, CheckResult, StepResult
from disent_core.report.style import png, png_made_of, preview
from disent_core.storage.results import fetch, open_result, remove_result, sha256_of, write_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger("disent_core.results")  # below the logger that Dagster shows: see dagster.yaml
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~&-])")
INLINE = 1000  # characters from which on the UI hides Markdown behind a click


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors into Dagster failures; those about data, configuration or a full device become a line, no traceback.

    Few are retried: `factory.LOST_PROCESS` restarts a step that has lost its process, its store or the event database.
    The same data or the same bug would fail again.
    """
    try:
        yield
    except (dg.Failure, *database_errors()):
        raise
    except Exception as error:
        is_transient = isinstance(error, TransientError)
        raise dg.Failure(description=description_of(error), allow_retries=is_transient) from error


def materialized(
    key: Sequence[str], result: StepResult, metadata: Mapping[str, Any] | None = None
) -> dg.MaterializeResult:
    """Return the result of a step as Dagster records it; the data version is the hash of the content.

    Pages show metadata in this order, so that displays such as pictures are on the first screen.
    """
    if result.summary:
        log.info("%s: %s", "/".join(key), result.summary)
    figures = {name: shown(value) for name, value in result.figures.items()}
    tables = {name: value for name, value in figures.items() if isinstance(value, dg.TableMetadataValue)}
    return dg.MaterializeResult(
        asset_key=dg.AssetKey(list(key)),
        data_version=dg.DataVersion(result.content),
        metadata={
            **(metadata or {}),
            **{name: value for name, value in figures.items() if name not in tables},
            MADE: not result.is_reused,
            **({} if result.rows is None else {"dagster/partition_row_count": result.rows}),
            **tables,  # long, so last
        },
        check_results=[check_result(key, outcome) for outcome in result.checks],
    )


def shown(value: Any) -> Any:
    """Return a figure as metadata: numbers are rounded, rows (mappings with equal keys) become a table."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return dg.MetadataValue.table([dg.TableRecord(row) for row in value])
    return value


def markdown_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> dg.MetadataValue:
    """Return a table of Markdown cells under a title, cut to the first rows that the UI shows without a click."""
    lines = ["", f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    body = [f"| {' | '.join(row)} |" for row in rows]
    text = ""
    for kept in range(len(body), -1, -1):
        rest = f" (the first {kept} of {len(body)})" if kept < len(body) else ""
        text = "\n".join([title + rest, *lines, *body[:kept]])
        if len(text) < INLINE:
            break
    return dg.MetadataValue.md(text)  # noqa: TID251 - its names are escaped


def literal(text: str) -> str:
    """Return the text as Markdown that shows every character literally."""
    return _MARKDOWN.sub(r"\\\1", text)


def check_spec(
    key: Sequence[str], check: Check, partitions: dg.PartitionsDefinition | None = None
) -> dg.AssetCheckSpec:
    """Return Dagster's spec of an asset's check."""
    return dg.AssetCheckSpec(
        check.name,
        asset=list(key),
        description=check.description,
        blocking=check.blocking,
        partitions_def=partitions,
    )


def check_result(key: Sequence[str], outcome: CheckResult) -> dg.AssetCheckResult:
    """Return the outcome of a check as Dagster records it; a failed check is an error if it blocks, else a warning."""
    return dg.AssetCheckResult(
        passed=outcome.passed,
        check_name=outcome.check.name,
        asset_key=list(key),
        severity=dg.AssetCheckSeverity.ERROR if outcome.check.blocking else dg.AssetCheckSeverity.WARN,
        description=outcome.check.description,
        metadata={name: shown(value) for name, value in outcome.figures.items()},
    )


def pictures(
    plots: Path, made_of: str, drawings: Mapping[Path, Callable[[], "Figure | None"]]
) -> dict[str, dg.MetadataValue]:
    """Return pictures by file name; a picture is redrawn unless its file was drawn from `made_of`.

    The fingerprint `made_of` is stored in the file, so that a run killed between results and pictures leaves no
    outdated picture that passes for a new one. If there is nothing to draw, the file is removed. `web/server.py` serves
    the folder of all pictures, `plots`.
    """
    shown: dict[str, dg.MetadataValue] = {}
    for path, draw in drawings.items():
        small = path.with_name(f"{path.stem}.small.png")
        if open_result(path) is None or png_made_of(path) != made_of:
            figure = draw()
            if figure is None:
                remove_result(path)
                remove_result(small)
                continue
            drawn = png(figure, made_of)
            _write(small, preview(drawn))
            _write(path, drawn)  # last, because it marks both as being of this result
        elif open_result(small) is None:
            _write(small, preview(fetch(path).read_bytes()))
        shown[path.stem] = _linked(plots, path, small)
    if shown:
        shown["pictures"] = dg.MetadataValue.path(str(next(iter(drawings)).parent))  # for users without the server
    return shown


def _write(path: Path, picture: bytes) -> None:
    with write_result(path) as beside:
        beside.write_bytes(picture)


def is_served(value: Any) -> bool:
    """Return whether metadata shows a picture that only disent's web server can serve."""
    return isinstance(value, dg.MarkdownMetadataValue) and "](/pictures/" in (value.md_str or "")


def _linked(plots: Path, path: Path, small: Path) -> dg.MetadataValue:
    """Return Markdown that shows the small picture and opens the full one on a click.

    The UI shows Markdown under 1,000 characters without a click, and does not scale pictures: hence two files.
    """
    version = sha256_of(path)[:8]  # otherwise the browser shows the old picture
    names = (quote(file.relative_to(plots).as_posix()) for file in (path, small))
    address = value("DISENT_PICTURES").rstrip("/")
    full, inline = (f"{address}/{name}?v={version}" for name in names)
    return dg.MetadataValue.md(f"[![{path.stem}]({inline})]({full})")  # noqa: TID251 - names of our own


# --- code ---------------------------------------------------------------------------------------------------


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

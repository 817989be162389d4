"""Turn the results of steps into what the UI shows: data version, row counts, checks, pictures.

What belongs here: how results are shown. What does not: how they are computed.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import torch

from disent_core.errors import DisentError
from disent_core.experiment.result import CheckResult, StepResult
from disent_core.report.style import png, png_made_of
from disent_core.storage.checksums import checksummed_path, remove_with_checksum, verified

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LESS_MEMORY = "Lower batch_size of the method (batch_tokens of the encoder), or limit the corpus"


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn an error about data, configuration or a full device into one message without traceback, never retried."""
    try:
        yield
    except DisentError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
    except torch.OutOfMemoryError as error:
        description = f"out of GPU memory ({str(error).split('. ')[0]}). {_LESS_MEMORY}, or set device to 'cpu'"
        raise dg.Failure(description=description, allow_retries=False) from error
    except MemoryError as error:
        raise dg.Failure(description=f"out of memory. {_LESS_MEMORY}", allow_retries=False) from error


def materialized(
    key: Sequence[str], result: StepResult, metadata: Mapping[str, Any] | None = None
) -> dg.MaterializeResult:
    """The result of a step as Dagster records it; the data version is the hash of the content."""
    if result.summary:
        dg.get_dagster_logger().info(result.summary)
    return dg.MaterializeResult(
        asset_key=dg.AssetKey(list(key)),
        data_version=dg.DataVersion(result.content),
        metadata={
            **({} if result.rows is None else {"dagster/partition_row_count": result.rows}),
            "recomputed": not result.is_reused,
            **{name: shown(value) for name, value in result.figures.items()},
            **(metadata or {}),
        },
        check_results=[check_result(key, outcome) for outcome in result.checks],
    )


def shown(value: Any) -> Any:
    """A figure as metadata: rows (mappings with equal keys) become a table."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], Mapping):
        return value
    return dg.MetadataValue.table([dg.TableRecord(row) for row in value])


def check_result(key: Sequence[str], outcome: CheckResult) -> dg.AssetCheckResult:
    """The outcome of a check as Dagster records it; a failed check is an error if it blocks, else a warning."""
    return dg.AssetCheckResult(
        passed=outcome.passed,
        check_name=outcome.check.name,
        asset_key=list(key),
        severity=dg.AssetCheckSeverity.ERROR if outcome.check.blocking else dg.AssetCheckSeverity.WARN,
        description=outcome.check.description,
        metadata=dict(outcome.figures),
    )


def pictures(made_of: str, drawings: Mapping[Path, Callable[[], "Figure | None"]]) -> dict[str, dg.MetadataValue]:
    """Pictures by the names of their files; a picture is drawn again unless its file was drawn from `made_of`.

    The fingerprint `made_of` is stored in the file. So a run that was killed between its results and their pictures
    leaves no outdated picture that passes for a new one. If there is nothing to draw, the file is removed.
    """
    shown = {}
    for path, draw in drawings.items():
        if verified(path) is None or png_made_of(path) != made_of:
            figure = draw()
            if figure is None:
                remove_with_checksum(path)
                continue
            with checksummed_path(path) as beside:
                beside.write_bytes(png(figure, made_of))
        shown[path.stem] = picture(path)
    return shown


def picture(path: Path) -> dg.MetadataValue:
    """A PNG file as Markdown that contains the image, so that the UI needs no file server."""
    return dg.MetadataValue.md(f"![{path.stem}](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()})")

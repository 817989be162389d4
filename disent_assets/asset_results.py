"""What a step tells the UI: data version, row counts, schema, pictures.

What belongs here: how results are shown. What does not: how they are made.
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
    """Show an error about data, configuration or a full device as one message, without a traceback; never retry it."""
    try:
        yield
    except DisentError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
    except torch.OutOfMemoryError as error:
        said = f"out of GPU memory ({str(error).split('. ')[0]}). {_LESS_MEMORY}, or set device to 'cpu'"
        raise dg.Failure(description=said, allow_retries=False) from error
    except MemoryError as error:
        raise dg.Failure(description=f"out of memory. {_LESS_MEMORY}", allow_retries=False) from error


def materialized(
    key: Sequence[str], result: StepResult, metadata: Mapping[str, Any] | None = None
) -> dg.MaterializeResult:
    """What a step tells Dagster of its result; the data version is the content."""
    if result.summary:
        dg.get_dagster_logger().info(result.summary)
    return dg.MaterializeResult(
        asset_key=dg.AssetKey(list(key)),
        data_version=dg.DataVersion(result.content),
        metadata={
            **({} if result.rows is None else {"dagster/partition_row_count": result.rows}),
            "recomputed": not result.is_reused,
            **result.figures,
            **(metadata or {}),
        },
        check_results=[check_result(key, each) for each in result.checks],
    )


def check_result(key: Sequence[str], of: CheckResult) -> dg.AssetCheckResult:
    """The outcome of a check; only one that blocks is an error."""
    return dg.AssetCheckResult(
        passed=of.passed,
        check_name=of.check.name,
        asset_key=list(key),
        severity=dg.AssetCheckSeverity.ERROR if of.check.blocking else dg.AssetCheckSeverity.WARN,
        metadata=dict(of.figures),
    )


def pictures(made_of: str, drawings: Mapping[Path, Callable[[], "Figure | None"]]) -> dict[str, dg.MetadataValue]:
    """Pictures by the names of their files, drawn anew if they show anything but `made_of`.

    A file says itself what it shows, so that a run that was killed between its results and their pictures leaves
    none that is taken for new. Where there is nothing to draw no file is left.
    """
    shown = {}
    for path, draw in drawings.items():
        if verified(path) is None or png_made_of(path) != made_of:
            drawn = draw()
            if drawn is None:
                remove_with_checksum(path)
                continue
            with checksummed_path(path) as beside:
                beside.write_bytes(png(drawn, made_of))
        shown[path.stem] = picture(path)
    return shown


def picture(path: Path) -> dg.MetadataValue:
    """A PNG inside the page, which needs no file server."""
    return dg.MetadataValue.md(f"![{path.stem}](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()})")

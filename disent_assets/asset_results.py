"""What a step tells the UI: data version, row counts, schema, pictures.

What belongs here: how results are shown. What does not: how they are made.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import torch

from disent_core.errors import DisentError
from disent_core.report.style import png, png_made_of
from disent_core.storage.files import remove_sealed, sealed_path, sound
from disent_core.storage.tables import Refreshed, fingerprint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNERS = ["team:disent"]
_LESS_MEMORY = "Lower batch_size of the method (batch_tokens of the encoder), or limit the corpus"


@contextmanager
def clear_errors() -> Iterator[None]:
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


def step_name(key: Sequence[str]) -> str:
    """Name of the step that makes an asset: letters, digits and _ only, and another one for every other key."""
    plain = "__".join(key)
    if all(_PLAIN_PART.fullmatch(part) for part in key):
        return plain
    return f"{_OTHER_CHARACTER.sub('_', plain)}__{fingerprint(list(key))[:8]}"


_PLAIN_PART = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")
_OTHER_CHARACTER = re.compile(r"[^A-Za-z0-9_]")


def spec(
    key: Sequence[str],
    description: str,
    *,
    code_version: str,
    kinds: set[str],
    deps: Sequence[dg.AssetDep] = (),
    schema: pa.Schema | None = None,
    skippable: bool = False,
) -> dg.AssetSpec:
    """Spec of an asset: its stage is the first part of its key, and its group."""
    return dg.AssetSpec(
        key=list(key),
        description=description,
        deps=list(deps),
        group_name=key[0],
        code_version=code_version,
        kinds=kinds,
        owners=OWNERS,
        skippable=skippable,
        metadata={} if schema is None else {"dagster/column_schema": column_schema(schema)},
    )


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """An Arrow schema as the UI shows it."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(field.name, str(field.type), constraints=dg.TableColumnConstraints(nullable=field.nullable))
            for field in schema
        ]
    )


def materialized(
    tables: Sequence[Refreshed],
    *,
    key: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    checks: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult:
    """Result of a step that refreshed tables; its data version is their content."""
    return dg.MaterializeResult(
        asset_key=None if key is None else dg.AssetKey(list(key)),
        data_version=dg.DataVersion(fingerprint(*(table.info.content for table in tables))),
        metadata={
            "dagster/partition_row_count": sum(table.info.rows for table in tables),
            "recomputed": not all(table.is_reused for table in tables),
            **(metadata or {}),
        },
        check_results=list(checks),
    )


def pictures(made_of: str, drawings: Mapping[Path, Callable[[], "Figure | None"]]) -> dict[str, dg.MetadataValue]:
    """Pictures by the names of their files, drawn anew if they show anything but `made_of`.

    A file says itself what it shows, so that a run that was killed between its results and their pictures leaves
    none that is taken for new. Where there is nothing to draw no file is left.
    """
    shown = {}
    for path, draw in drawings.items():
        if sound(path) is None or png_made_of(path) != made_of:
            drawn = draw()
            if drawn is None:
                remove_sealed(path)
                continue
            with sealed_path(path) as beside:
                beside.write_bytes(png(drawn, made_of))
        shown[path.stem] = picture(path)
    return shown


def picture(path: Path) -> dg.MetadataValue:
    """A PNG inside the page, which needs no file server."""
    return dg.MetadataValue.md(f"![{path.stem}](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()})")

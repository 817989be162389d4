"""Describe in one line why a step failed, as the command line and the status show instead of a traceback."""

import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping

import dagster as dg

from disent.extras import remedy
from disent_core.errors import DisentError, StorageError, shortage
from disent_core.lineage.state import name_of
from disent_core.lineage.step import Node
from disent_core.lineage.workspace import head_key

_INSTALLED = re.compile(r"/(site|dist)-packages/(?P<package>\w+)")
_LACKING = re.compile(
    r".*/(?:tables/(?P<stage>[a-z]+)/(?P<table>[^/]+)/(?:.+/)?|heads/(?P<encoder>[^/]+)/(?P<method>[^/]+)/)"
    r"(?P<partition>[^/]+)\.(?:parquet|safetensors): this (?:table|head) does not exist\b.*"
)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_LESS_MEMORY = "Lower batch_size of the method (batch_tokens of the encoder), or limit the corpus"


def description_of(error: Exception) -> str:
    """Return an error's message, with its line of code unless the error is about data, configuration or memory."""
    if isinstance(error, DisentError):
        return with_asset(str(error))
    if type(error).__name__ == "OutOfMemoryError":  # torch's; torch is loaded only by what computes
        return f"out of GPU memory ({str(error).split('. ')[0]}). {_LESS_MEMORY}, or set device to 'cpu'"
    innermost = list(causes(error))[-1]
    if (line := shortage(innermost, _LESS_MEMORY)) is not None:
        return line
    if isinstance(innermost, ModuleNotFoundError) and (missing := remedy(innermost, "lineage")) is not None:
        return f"this {missing}"
    message = "".join(traceback.format_exception_only(innermost)).strip()
    place = place_of(innermost)
    return f"{message} ({place}). For the traceback run disent --debug materialize" if place else message


def failure_of(error: Exception) -> str:
    """Return the message of an error raised by a step."""
    is_described = isinstance(error, dg.Failure) and error.description
    return str(error.description) if is_described else description_of(error)  # pyright: ignore[reportAttributeAccessIssue]


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, innermost last."""
    while error is not None:
        yield error
        error = error.__cause__


def failure_of_steps(failed: Mapping[Node, str]) -> dg.Failure:
    """Return the failure of a run with these failed steps; alerts read the list from its metadata."""
    listed = [{"step": name_of(node), "partition": node[1], "error": error} for node, error in failed.items()]
    lines = [f"{name_of(node)}: {error}" for node, error in failed.items()]
    return dg.Failure("\n".join(lines), metadata={"failed": dg.MetadataValue.json(listed)}, allow_retries=False)


def is_of_disk(error: BaseException) -> bool:
    """Whether the disk failed or is full, so that other steps would fail too."""
    return any(isinstance(cause, StorageError) for cause in causes(error))


def failure_text(event: dg.DagsterEvent) -> str:
    failure = event.step_failure_data
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return failure.user_failure_data.description
    error = failure.error
    while error is not None and error.cause is not None:
        error = error.cause
    return "" if error is None else error.message.strip()


def with_asset(message: str) -> str:
    """Add the asset and the command that makes it to a message about an input that has not been made."""
    if (lacking := _LACKING.fullmatch(message)) is None:
        return message
    stage = lacking["stage"] or "heads"
    key = "/".join(head_key(lacking["encoder"], lacking["method"]) if stage == "heads" else (stage, lacking["table"]))
    partition = lacking["partition"]
    return f"{key} [{partition}] has not been made. Run disent materialize +{stage} --partition {partition}"


def place_of(error: BaseException) -> str | None:
    """Return file, line and function of the innermost frame outside libraries, or else of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return None
    frame = next((frame for frame in reversed(frames) if not _is_of_library(frame.filename)), frames[-1])
    return f"{frame.filename}:{frame.lineno}, in {frame.name}"


def _is_of_library(file: str) -> bool:
    if installed := _INSTALLED.search(file):
        return not installed["package"].startswith("disent")
    return file.startswith((f"{_STANDARD_LIBRARY}/", "<"))


def failed_checks(results: Iterable[dg.MaterializeResult], severity: dg.AssetCheckSeverity) -> list[str]:
    """Return the failed checks of this severity, each with its asset, condition and figures."""
    checks = [check for result in results for check in result.check_results or ()]
    return [_check_text(check) for check in checks if not check.passed and check.severity == severity]


def _check_text(check: dg.AssetCheckResult) -> str:
    assert check.asset_key is not None
    figures = ", ".join(f"{name} = {value.value}" for name, value in check.metadata.items())
    name = f"check {check.check_name} of {check.asset_key.to_user_string()}"
    return f"{name} failed ({figures}); expected: {(check.description or '').rstrip('.')}"

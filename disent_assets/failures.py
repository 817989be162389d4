"""Say in plain words why a step failed: what the command line and the status show instead of a traceback."""

import re
import sysconfig
from collections.abc import Sequence

import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError
from dagster._core.execution.plan.objects import StepFailureData
from dagster_shared.error import SerializableErrorInfo

from disent_core.experiment.keys import head_key

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')
_INSTALLED = re.compile(r"/(site|dist)-packages/(?P<package>\w+)")
_LACKING = re.compile(
    r".*/(?:tables/(?P<stage>[a-z]+)/(?P<table>[^/]+)/(?:.+/)?|heads/(?P<encoder>[^/]+)/(?P<method>[^/]+)/)"
    r"(?P<partition>[^/]+)\.(?:parquet|safetensors): this (?:table|head) does not exist\b.*"
)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


def failure_text(failure: StepFailureData) -> str:
    """The message of a failed step: its description if there is one, else the innermost error with its place."""
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return told_by_key(failure.user_failure_data.description)
    if failure.error is None:
        return ""
    innermost = _innermost(failure.error)
    place = None if _is_of_checks(innermost) else place_of(innermost.stack)
    message = innermost.message.strip()
    return f"{message} ({place}). For the traceback run disent --debug materialize" if place else message


def told_by_key(message: str) -> str:
    """The message; that of an input which has not been made names its asset, and the command that makes it."""
    if (lacking := _LACKING.fullmatch(message)) is None:
        return message
    stage = lacking["stage"] or "heads"
    key = "/".join(head_key(lacking["encoder"], lacking["method"]) if stage == "heads" else (stage, lacking["table"]))
    partition = lacking["partition"]
    return f"{key} [{partition}] has not been made. Run disent materialize +{stage} --partition {partition}"


def place_of(stack: Sequence[str]) -> str | None:
    """File, line and function of the innermost frame that is not of a library, or else of the innermost frame.

    Args:
        stack: the frames as `traceback` formats them, the innermost last; without frames the result is None.
    """
    frames = [frame for text in stack if (frame := _FRAME.match(text)) is not None]
    if not frames:
        return None
    frame = next((frame for frame in reversed(frames) if not _is_of_library(frame["file"])), frames[-1])
    return f"{frame['file']}:{frame['line']}, in {frame['function']}"


def _is_of_library(file: str) -> bool:
    if installed := _INSTALLED.search(file):
        return not installed["package"].startswith("disent")
    return file.startswith((f"{_STANDARD_LIBRARY}/", "<"))


def failed_checks(failure: StepFailureData, evaluations: Sequence[dg.AssetCheckEvaluation]) -> str:
    """The checks for which a step failed, each with its asset, condition and figures; empty if it was no check.

    Args:
        failure: of the step.
        evaluations: the outcomes of all checks of the run.
    """
    if failure.error is None or not _is_of_checks(_innermost(failure.error)):
        return ""
    failed = [one for one in evaluations if not one.passed and one.severity == dg.AssetCheckSeverity.ERROR]
    return "; ".join(map(check_text, failed))


def failed_checks_text(failure: StepFailureData, evaluations: Sequence[dg.AssetCheckEvaluation], step: str) -> str:
    """The same with the step, and what follows.

    Args:
        failure: of the step.
        evaluations: the outcomes of all checks of the run.
        step: assets and partition of the run, for the message.
    """
    checks = failed_checks(failure, evaluations)
    return checks and f"{step}: {checks}. Nothing downstream is made until the data is corrected"


def check_text(evaluation: dg.AssetCheckEvaluation | dg.AssetCheckResult) -> str:
    """A failed check with its asset, condition and figures."""
    assert evaluation.asset_key is not None
    figures = ", ".join(f"{name} = {value.value}" for name, value in evaluation.metadata.items())
    condition = (evaluation.description or "").rstrip(".")
    check = f"check {evaluation.check_name} of {evaluation.asset_key.to_user_string()}"
    return f"{check} failed ({figures}); expected: {condition}"


def _is_of_checks(error: SerializableErrorInfo) -> bool:
    return error.cls_name == DagsterAssetCheckFailedError.__name__


def _innermost(error: SerializableErrorInfo) -> SerializableErrorInfo:
    while error.cause is not None:
        error = error.cause
    return error

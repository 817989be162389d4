"""Post failed runs, and numbers made worse by a refresh, to a webhook."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import dagster as dg

from disent_assets.counted import counted
from disent_assets.run.error_messages import failure_text
from disent_assets.run.step import PARTITION_TAG
from disent_assets.settings.instance import FACE
from disent_assets.warehouse.refresh import REGRESSIONS

EVERY_SECONDS = 5
SECONDS_TO_ANSWER = 10
DIED = "its process has died; the end of its log says how"
"""Dagster reports such a run only as "marked as failed from outside"."""


def alert_sensor(address: str, ui: str | None) -> dg.SensorDefinition:
    """Return the sensor that posts a message for each failed run, with a link to it if there is a UI.

    Runs of commands are left out, as they report to the terminal; a refresh lists its failed steps. No message shows
    the address, which may contain a secret.
    """

    @dg.run_failure_sensor(
        name="alert",
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Posts failed runs to the address in DISENT_ALERTS.",
    )
    def alert(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        if FACE.items() <= context.dagster_run.tags.items():
            return dg.SkipReason("The command that started this run reports it.")
        failures, reason = context.get_step_failure_events(), context.failure_event.message or ""
        post(address, message(context.dagster_run, failures, reason, ui))
        return None

    return alert


def regression_sensor(address: str, ui: str | None, warehouse: Sequence[str]) -> dg.SensorDefinition:
    """Return the sensor that posts a message when the check of regressions starts to fail, or finds other ones.

    `warehouse` is the key of the warehouse's asset. Runs of commands are left out: they report to the terminal.
    """
    key = dg.AssetCheckKey(dg.AssetKey(warehouse), REGRESSIONS)

    @dg.sensor(
        name="alert_of_regressions",
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Posts numbers that a refresh has made worse to the address in DISENT_ALERTS.",
    )
    def alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        latest = context.instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
        outcome = latest.evaluation if latest else None
        if latest is None or outcome is None or outcome.passed:
            return dg.SkipReason("No number became worse.")
        figures: dict[str, Any] = {name: value.value for name, value in outcome.metadata.items()}
        lines = list(map(str, figures.get("sample", ())))
        if (seen := json.dumps(lines)) == context.cursor:
            return dg.SkipReason("What became worse has been posted.")
        run = context.instance.get_run_by_id(latest.run_id)
        if run is None or not FACE.items() <= run.tags.items():
            post(address, regressions_message(latest.run_id, figures["rows"], lines, ui))
        context.update_cursor(seen)
        return dg.SkipReason(f"{counted(figures['rows'], 'number')} became worse.")

    return alert


def regressions_message(run: str, count: int, lines: Sequence[str], ui: str | None) -> dict[str, Any]:
    """Return the message about `count` numbers that became worse, the first of which are in `lines`."""
    link = f"{ui}/runs/{run}" if ui else None
    head = f"disent: {counted(count, 'number')} became worse in run {run[:8]}{f' ({link})' if link else ''}"
    rest = [f"and {count - len(lines)} more: disent sql 'from regressions'"] if count > len(lines) else []
    return {"text": "\n".join([head, *lines, *rest]), "run": run, "link": link, "regressions": list(lines)}


def message(run: dg.DagsterRun, events: Sequence[dg.DagsterEvent], reason: str, ui: str | None) -> dict[str, Any]:
    """Return the message to post: a text for chat programs, and its parts.

    `reason` is why the run failed if no step did, for instance because its process was killed.
    """
    partition = run.tags.get(PARTITION_TAG)
    failures = [failure for event in events for failure in _failures(event, partition)]
    failures = failures or [{"step": None, "partition": partition, "error": _reason(run, reason)}]
    link = f"{ui}/runs/{run.run_id}" if ui else None
    head = f"disent: run {run.run_id[:8]} of {run.job_name} has failed{f' ({link})' if link else ''}"
    return {
        "text": "\n".join([head, *map(_line, failures)]),
        "run": run.run_id,
        "job": run.job_name,
        "link": link,
        "failures": failures,
    }


def _reason(run: dg.DagsterRun, reason: str) -> str:
    cause = DIED if "from outside the execution context" in reason else _first_line(reason)
    return f"{cause}. It will be started once more" if run.tags.get("dagster/will_retry") == "true" else cause


def _failures(event: dg.DagsterEvent, partition: str | None) -> list[dict[str, str | None]]:
    failure = event.step_failure_data
    listed = failure.user_failure_data.metadata.get("failed") if failure.user_failure_data else None
    if isinstance(listed, dg.JsonMetadataValue) and isinstance(listed.value, list):  # a refresh
        return [{**failed, "error": _first_line(failed["error"])} for failed in listed.value]
    return [{"step": event.step_key, "partition": partition, "error": _first_line(failure_text(event))}]


def _line(failure: dict[str, str | None]) -> str:
    name = failure["step"] or "the run"
    shown = f" [{failure['partition']}]" if failure["partition"] and not name.endswith("]") else ""
    return f"{name}{shown}: {failure['error']}"


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:1000]


def post(address: str, content: dict[str, Any]) -> None:
    request = Request(address, json.dumps(content).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=SECONDS_TO_ANSWER):
            pass
    except (URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "code", None) or type(error).__name__
        raise RuntimeError(f"the webhook of DISENT_ALERTS did not accept a message ({reason})") from None

"""What a webhook is told of failed runs."""

from collections.abc import Iterator

import dagster as dg
import pytest
from toy_steps import Listener, listening

from disent_assets.settings.environment import run_settings
from disent_assets.settings.instance import FACE, QUIET
from disent_assets.web.alerts import alert_sensor, post, regression_sensor
from disent_core.errors import ConfigError


@pytest.fixture
def webhook() -> Iterator[Listener]:
    with listening() as listener:
        listener.address += "/secret"
        yield listener


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["de"]))
def table() -> None:
    raise dg.Failure("de.jsonl:2: broken line\nmore")


def definitions(webhook: Listener, ui: str | None) -> dg.Definitions:
    return dg.Definitions(assets=[table], sensors=[alert_sensor(webhook.address, ui)])


def evaluated(
    definitions: dg.Definitions, instance: dg.DagsterInstance, run: dg.DagsterRun, event: dg.DagsterEvent
) -> dg.SkipReason | None:
    repository = definitions.get_repository_def()
    context = dg.build_run_status_sensor_context("alert", event, instance, run, repository_def=repository)
    return definitions.get_sensor_def("alert")(context.for_run_failure())


def tell(webhook: Listener, *, tags: dict[str, str] | None = None) -> dg.SkipReason | None:
    """Run the asset, which fails, and evaluate the sensor."""
    loaded = definitions(webhook, "http://127.0.0.1:3000")
    with dg.DagsterInstance.ephemeral() as instance:
        result = loaded.resolve_implicit_global_asset_job_def().execute_in_process(
            partition_key="de", instance=instance, raise_on_error=False, run_config=QUIET, tags=tags
        )
        return evaluated(loaded, instance, result.dagster_run, result.get_run_failure_event())


def test_the_alert_of_a_failed_run_names_step_partition_error_and_link(webhook):
    assert "The command" in str(tell(webhook, tags=FACE).skip_message)
    assert webhook.messages == []
    assert tell(webhook) is None
    (message,) = webhook.messages
    assert message["failures"] == [{"step": "table", "partition": "de", "error": "de.jsonl:2: broken line"}]
    assert message["link"] == f"http://127.0.0.1:3000/runs/{message['run']}"
    assert message["text"].splitlines() == [
        f"disent: run {message['run'][:8]} of __ASSET_JOB has failed ({message['link']})",
        "table [de]: de.jsonl:2: broken line",
    ]


DIED = "its process has died; the end of its log says how"


RETRIED = {"dagster/will_retry": "true"}


def test_the_alert_of_a_failed_run_without_failed_steps_names_the_reason(webhook):
    loaded = definitions(webhook, None)
    with dg.DagsterInstance.ephemeral() as instance:
        for error, tags in (("its queue is full", {}), (None, {}), (None, RETRIED)):
            run = dg.DagsterRun("refresh", status=dg.DagsterRunStatus.STARTED, tags=tags)
            instance.add_run(run)
            instance.report_run_failed(run, error)
            (entry,) = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
            evaluated(loaded, instance, run, entry.dagster_event)
    reasons = ("its queue is full", DIED, f"{DIED}. It will be started once more")
    assert [message["failures"][0]["error"] for message in webhook.messages] == [*reasons]
    assert {message["link"] for message in webhook.messages} == {None}


def test_the_error_of_a_refusing_webhook_hides_its_address(webhook):
    webhook.status = 500
    with pytest.raises(RuntimeError, match=r"did not accept a message \(500\)") as raised:
        post(webhook.address, {})
    assert "secret" not in "".join(map(str, (raised.value, raised.value.__cause__)))


def test_the_alert_address_comes_from_the_environment_and_an_invalid_one_is_refused_and_not_shown():
    for address in ("", "https://example.org/hook?key=1"):
        assert run_settings({"DISENT_ALERTS": address}).alerts == (address or None)
    refused = r"^DISENT_ALERTS must be an address that begins with http:// or https://$"
    for address in ("file:///etc/passwd", "http:///hook", "http://[/hook", "https://host:0/", "https://host:port/"):
        with pytest.raises(ConfigError, match=refused):
            run_settings({"DISENT_ALERTS": address})


@pytest.mark.parametrize("tags", [{}, FACE])
def test_regressions_are_alerted_once_and_not_for_command_line_runs(webhook, tags):
    turns = [["refresh 2, method dream, before 0.5, after 0.3"], [], ["refresh 4, method fmda, before 0.6, after 0.2"]]

    @dg.asset(check_specs=[dg.AssetCheckSpec("no_regressions", asset="database")])
    def database(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        lines = turns[int(context.run.tags["turn"])]
        metadata = {"rows": 7 * len(lines), **({"sample": lines} if lines else {})}
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=not lines, metadata=metadata)])

    loaded = dg.Definitions([database], sensors=[regression_sensor(webhook.address, "http://ui", ["database"])])
    cursor = None
    with dg.DagsterInstance.ephemeral() as instance:
        for turn in (None, 0, 0, 1, 2):
            if turn is not None:
                job = loaded.resolve_implicit_global_asset_job_def()
                job.execute_in_process(instance=instance, tags={**tags, "turn": str(turn)})
            with dg.build_sensor_context(instance, cursor=cursor, definitions=loaded) as context:
                loaded.get_sensor_def("alert_of_regressions")(context)
                cursor = context.cursor
    expected = [] if tags else [turns[0], turns[2]]
    assert [message["regressions"] for message in webhook.messages] == expected
    if expected:
        text = webhook.messages[0]["text"].splitlines()
        assert text[0].startswith("disent: 7 numbers became worse in run ")
        assert text[1:] == [*turns[0], "and 6 more: disent sql 'from regressions'"]

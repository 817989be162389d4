"""What a webhook is told of failed runs."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import dagster as dg
import pytest

from disent_assets.settings.environment import alerts_address
from disent_assets.settings.instance import FACE, QUIET
from disent_assets.web.alerts import alert_sensor, post
from disent_core.errors import ConfigError


class Webhook:
    """A server on this machine, the messages that it gets, and the status with which it answers."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.status = 200
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                webhook.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(webhook.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/secret"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    Thread(target=webhook.server.serve_forever, daemon=True).start()
    yield webhook
    webhook.server.shutdown()
    webhook.server.server_close()


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["de"]))
def table() -> None:
    raise dg.Failure("de.jsonl:2: broken line\nmore")


def tell(webhook: Webhook, *, tags: dict[str, str] | None = None) -> dg.SkipReason | None:
    """Run the asset, which fails, and evaluate the sensor."""
    definitions = dg.Definitions(assets=[table], sensors=[alert_sensor(webhook.address, "http://127.0.0.1:3000")])
    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            partition_key="de", instance=instance, raise_on_error=False, run_config=QUIET, tags=tags
        )
        return _evaluate(definitions, instance, result)


def _evaluate(
    definitions: dg.Definitions, instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> dg.SkipReason | None:
    event = result.get_run_failure_event()
    context = dg.build_run_status_sensor_context(
        "alert", event, instance, result.dagster_run, repository_def=definitions.get_repository_def()
    ).for_run_failure()
    return definitions.get_sensor_def("alert")(context)


def test_a_failed_run_is_told_with_step_partition_error_and_link(webhook):
    assert tell(webhook) is None
    (message,) = webhook.messages
    assert message["failures"] == [{"step": "table", "partition": "de", "error": "de.jsonl:2: broken line"}]
    assert message["link"] == f"http://127.0.0.1:3000/runs/{message['run']}"
    assert message["text"].splitlines() == [
        f"disent: run {message['run'][:8]} of __ASSET_JOB has failed ({message['link']})",
        "table [de]: de.jsonl:2: broken line",
    ]


def test_a_run_of_the_command_line_is_not_told(webhook):
    assert "The command" in str(tell(webhook, tags=FACE).skip_message)
    assert webhook.messages == []


@pytest.mark.parametrize(
    ("said", "tags", "told"),
    [
        ("its queue is full", {}, "its queue is full"),
        (None, {}, "its process has died; the end of its log says how"),
        (
            None,
            {"dagster/will_retry": "true"},
            "its process has died; the end of its log says how. It is started once more",
        ),
    ],
)
def test_a_run_of_which_no_step_failed_is_told_with_the_reason(webhook, said, tags, told):
    definitions = dg.Definitions(assets=[table], sensors=[alert_sensor(webhook.address, None)])
    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.DagsterRun("refresh", status=dg.DagsterRunStatus.STARTED, tags=tags)
        instance.add_run(run)
        instance.report_run_failed(run, said)
        (entry,) = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
        context = dg.build_run_status_sensor_context(
            "alert", entry.dagster_event, instance, run, repository_def=definitions.get_repository_def()
        ).for_run_failure()
        definitions.get_sensor_def("alert")(context)
    (message,) = webhook.messages
    assert message["failures"][0]["error"] == told
    assert message["link"] is None


def test_a_webhook_that_refuses_fails_the_tick_without_its_address(webhook):
    webhook.status = 500
    with pytest.raises(RuntimeError, match=r"did not accept a message \(500\)") as raised:
        post(webhook.address, {})
    assert "secret" not in "".join(map(str, (raised.value, raised.value.__cause__)))


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:9/x", "https://example.org/hook?key=1"])
def test_an_address_is_taken_from_the_environment(address):
    assert alerts_address({"DISENT_ALERTS": address}) == (address or None)


WRONG = [
    "file:///etc/passwd",
    "example.org/hook",
    "http:///hook",
    "http://[/hook",
    "https://host:0/",
    "https://host:port/",
]


@pytest.mark.parametrize("address", WRONG)
def test_what_is_no_web_address_is_refused_without_showing_it(address):
    with pytest.raises(ConfigError, match=r"^DISENT_ALERTS must be an address that begins with http:// or https://$"):
        alerts_address({"DISENT_ALERTS": address})

"""What the log of a run reports to Dagster, and in which order."""

from types import SimpleNamespace

import dagster as dg
import pytest

from disent_assets.run.plan import StepRun
from disent_assets.run.progress import RunLog
from disent_assets.run.step import DATA_VERSION

OUTPUT, EXTERNAL = dg.AssetKey("database"), dg.AssetKey("relation")
EVENTS = [dg.AssetMaterialization(key, tags={DATA_VERSION: "1"}) for key in (OUTPUT, EXTERNAL)]


@pytest.fixture
def report(monkeypatch):
    """Report the events, up to an asset whose event fails; return the keys of the reported ones."""
    monkeypatch.setattr(RunLog, "_tags", lambda *_: ())
    with dg.DagsterInstance.ephemeral() as instance:

        def report_events(failing=None, *, is_news=False):
            reported = []

            def log_event(event):
                if event.asset_key == failing:
                    raise OSError
                instance.report_runless_asset_event(event)
                reported.append(event.asset_key)

            context = SimpleNamespace(instance=instance, log_event=log_event)
            log = RunLog(context, None, {("database",): SimpleNamespace(asset=SimpleNamespace(keys={OUTPUT}))})
            try:
                log.report(StepRun(("database",), (("database",),), None), EVENTS, is_news=is_news)
            except OSError:
                reported.append("killed")
            return reported

        yield report_events


def test_a_run_that_is_killed_between_two_events_leaves_the_other_to_the_next_run(report):
    assert report(failing=OUTPUT) == [EXTERNAL, "killed"]
    assert report() == [OUTPUT]
    assert report() == []
    assert report(is_news=True) == [OUTPUT]
